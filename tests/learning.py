"""Tests whether a model learns: sequences to copy or reverse, training with an hparams set, greedy decoding.

Legend: B batch, S source length, T target length.
"""

import keras
import numpy as np
import tensorflow as tf

from t2t.hparams.groups import MASK_PREDICT
from t2t.inference.non_autoregressive import BatchAnswer, BatchMaskPredict
from t2t.search.settings import SearchSettings
from t2t.training.optimizers import build_optimizer
from t2t.training.schedules import learning_rate
from tests.builders import numpy, padded, tokens_spec

SYMBOLS = 4
"""Number of symbols, the ids 2 to 5; 0 is padding and 1 the end of sequence."""
LONGEST = 8
"""Maximum number of symbols in a sequence."""


def pairs(rng, count, task, longest=LONGEST):
    """Returns features with random sequences of ids as inputs, and copied or reversed ones as targets, padded."""
    inputs = [rng.integers(2, 2 + SYMBOLS, rng.integers(1, longest + 1)).tolist() for _ in range(count)]
    answers = [row[::-1] if task == "reverse" else row for row in inputs]
    return {
        "inputs": padded([[*row, 1] for row in inputs], longest + 1),
        "targets": padded([[*row, 1] for row in answers], longest + 1),
    }


def trained(model_class, hparams, task, rows=64, steps=None, pairs=pairs):
    """Returns a model trained with its hparams set on `rows` pairs per update; `steps` overrides the set's number.

    `pairs(rng, count, task)` returns features.
    """
    keras.utils.set_random_seed(1)
    model = model_class(hparams, tokens_spec(2 + SYMBOLS, 2 + SYMBOLS))
    optimizer = build_optimizer(hparams)
    optimizer.build(model.trainable_variables)
    steps = steps or hparams.train_steps

    @tf.function(autograph=False)
    def update(features, rate, step):
        # There is no dropout; the seed is only for models that mask words.
        seed = tf.stack([tf.constant(1, tf.int64), step]) if model.mask_predicts else None
        with tf.GradientTape() as tape:
            loss, tokens = model.loss_sum(model.body(features, seed=seed), features["targets"])
            loss = loss / tokens
        gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
        if hparams.clip_grad_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, hparams.clip_grad_norm)
        optimizer.learning_rate.assign(rate)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    rng = np.random.default_rng(1)
    for step in range(1, steps + 1):
        rate = learning_rate(hparams.replace(train_steps=steps), step)
        update(pairs(rng, rows, task), tf.constant(rate, tf.float32), tf.constant(step, tf.int64))
    return model


def sequence_accuracy(model, task, count=200):
    """Returns the fraction of unseen sequences decoded without error, greedily, by mask-predict or in one pass."""
    unseen = pairs(np.random.default_rng(2), count, task)
    if model.autoregressive:
        found = greedy(model, unseen["inputs"], LONGEST + 1)
    elif model.mask_predicts:
        search = BatchMaskPredict(model, SearchSettings(method=MASK_PREDICT, iterations=4), extra_length=0)
        found = search(unseen["inputs"]).ids[:, 0]
    else:
        found = BatchAnswer(model)(unseen["inputs"]).ids[:, 0]
    return np.mean((found == unseen["targets"]).all(axis=1))


def greedy(model, inputs, length):
    """Returns ids (B, length) of greedy decoding with `decode_step`, 0 after the end."""
    encoded = model.encode({"inputs": inputs})
    cache, last = model.init_cache(encoded, len(inputs), length), np.zeros(len(inputs), np.int32)
    ended, found = np.zeros(len(inputs), bool), []
    for position in range(length):
        logits, cache = model.decode_step(last, position, cache, encoded)
        last = np.where(ended, 0, numpy(logits).argmax(axis=-1)).astype(np.int32)
        ended |= last == 1
        found.append(last)
    return np.stack(found, axis=1)
