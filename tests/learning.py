"""Whether a model learns: sequences to copy or reverse, training as a set of hparams says, greedy decoding.

Legend: B batch, S source length, T target length.
"""

import keras
import numpy as np
import tensorflow as tf

from t2t.decoding.settings import SearchSettings
from t2t.hparams.groups import MASK_PREDICT
from t2t.inference.batch_answer import BatchAnswer
from t2t.inference.batch_mask_predict import BatchMaskPredict
from t2t.training.optimizers import build_optimizer
from t2t.training.schedules import learning_rate
from tests.builders import numpy, padded, tokens_spec

SYMBOLS = 4
"""Ids 2 to 5 are what sequences are made of."""
LONGEST = 8
"""Symbols of the longest sequence."""


def pairs(rng, count, task, longest=LONGEST):
    """Random sequences of ids and what `copy` or `reverse` makes of them, padded to one width."""
    inputs = [rng.integers(2, 2 + SYMBOLS, rng.integers(1, longest + 1)).tolist() for _ in range(count)]
    answers = [row[::-1] if task == "reverse" else row for row in inputs]
    return {
        "inputs": padded([[*row, 1] for row in inputs], longest + 1),
        "targets": padded([[*row, 1] for row in answers], longest + 1),
    }


def trained(model_class, hparams, task, rows=64, steps=None):
    """A model after the updates of its set, each of `rows` pairs; `steps` for another number of them."""
    keras.utils.set_random_seed(1)
    model = model_class(hparams, tokens_spec(2 + SYMBOLS, 2 + SYMBOLS))
    optimizer = build_optimizer(hparams)
    optimizer.build(model.trainable_variables)
    steps = steps or hparams.train_steps

    @tf.function(autograph=False)
    def update(features, rate, step):
        # Nothing is dropped: a seed decides which words are masked, where any are.
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
        rate = learning_rate(hparams, step, hidden_size=hparams.hidden_size, train_steps=steps)
        update(pairs(rng, rows, task), tf.constant(rate, tf.float32), tf.constant(step, tf.int64))
    return model


def sequence_accuracy(model, task, count=200):
    """Which fraction of unseen sequences is right as a whole, decoded greedily, by mask-predict or answered at once."""
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
    """Ids (B, length) as decoding one step at a time gives them, 0 after the end."""
    encoded = model.encode({"inputs": inputs})
    cache, last = model.init_cache(encoded, len(inputs), length), np.zeros(len(inputs), np.int32)
    ended, found = np.zeros(len(inputs), bool), []
    for position in range(length):
        logits, cache = model.decode_step(last, position, cache, encoded)
        last = np.where(ended, 0, numpy(logits).argmax(axis=-1)).astype(np.int32)
        ended |= last == 1
        found.append(last)
    return np.stack(found, axis=1)
