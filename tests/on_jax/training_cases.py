"""Cases of training from random weights without dropout on the current Keras backend."""

import dataclasses
import functools

import keras
import numpy as np
from keras import ops

from t2t.backends import backend
from t2t.hparams.groups import OptimizerHParams
from t2t.layers.adapters import Adapters
from t2t.models.classics.neural_gpu import NeuralGpu
from t2t.models.lstm import LstmSeq2seqAttention
from t2t.models.transformer import Transformer
from t2t.specs import POSITIONS
from t2t.specs.features import ProblemSpec
from t2t.training.optimizers import build_optimizer
from t2t.training.step import UpdateStep
from t2t.training.weights import model_arrays, optimizer_arrays
from tests.builders import batch, padded, randomise, tiny_hparams, tokens_spec

UPDATES = 6


class Factors(keras.Model):
    """A matrix and a vector: the loss is the squared distance of their products from 1. It compiles at once."""

    def __init__(self):
        super().__init__(name="factors")
        self.spec, self.longest_sequence = tokens_spec(), None
        self.matrix = self.add_weight(name="matrix", shape=(13, 6), initializer="ones")
        self.vector = self.add_weight(name="vector", shape=(6,), initializer="ones")
        self.built = True

    def body(self, features, seed=None):
        return ops.take(self.matrix, features["targets"], axis=0) * self.vector

    def loss_sum(self, hidden, targets):
        keep = ops.cast(targets != 0, "float32")
        return ops.sum(ops.sum(ops.square(hidden - 1.0), axis=-1) * keep), ops.sum(keep)


def trained(
    build_model, optimizer="adam", replicas=1, shards=1, micro_batches=1, adapts=False, problems=("",), rate=1e-2,
    updates=UPDATES, examples=None, **rules,
):  # fmt: skip
    """Returns weights, optimizer slots and figures after some updates, by default on batches of changing shapes."""
    examples = examples or _batch
    engine = backend()
    devices = engine.devices(worker_cpu=replicas * shards, weight_shards=shards)
    with devices.scope():
        model = randomise(build_model(), 4)
        adapters = Adapters(model, model.trainable_variables[2:4], rank=2, alpha=4.0) if adapts else None
        for number, variable in enumerate(adapters.variables if adapters else ()):
            variable.assign(np.random.default_rng(number).normal(0, 0.3, variable.shape))
        rule = build_optimizer(OptimizerHParams(optimizer=optimizer))
    step = UpdateStep(model, rule, devices, adapters=adapters, **rules)
    stats = []
    for update in range(1, updates + 1):
        parts = iter(range(100))
        given = [[examples(update, next(parts)) for _ in range(replicas)] for _ in range(micro_batches)]
        stats.append(step(given, update, rate, problems[update % len(problems)]))
    figures = [[float(one.loss_sum), float(one.tokens), float(one.grad_norm), float(one.padded)] for one in stats]
    averages = {f"ema/{number}": np.asarray(mean) for number, mean in enumerate(step.ema)}
    found = {**model_arrays(step), **optimizer_arrays(step), **averages, "figures": np.array(figures)}
    return {name.replace("/", "."): value for name, value in found.items()}


def _batch(update, part):
    lengths = np.random.default_rng([update, part]).integers(1, 9, (2, 3 + part % 2))
    return batch(100 * update + part, tuple(lengths[0]), tuple(lengths[1]))


def packed(update, part):
    """Returns a batch of rows with two examples each, and their positions."""
    made = {}
    for name, ids in _batch(update, part).items():
        pairs = [[row[row != 0] for row in rows] for rows in zip(ids, ids[::-1], strict=True)]
        made[name] = padded([np.concatenate(pair) for pair in pairs])
        made[POSITIONS[name]] = padded([np.concatenate([np.arange(len(row)) for row in pair]) for pair in pairs])
    return made


def transformer(layers=1, **changes):
    """A Transformer of one layer, or more."""
    return Transformer(tiny_hparams(num_hidden_layers=layers, **changes), tokens_spec())


def small(model_class):
    """A model of one layer of width 8."""
    return model_class(model_class.hparams_class(hidden_size=8, num_hidden_layers=1, dropout=0.0), tokens_spec())


def of_two_problems():
    """A Transformer of two problems with separate embeddings."""
    members = tuple(dataclasses.replace(tokens_spec(), name=name) for name in ("one", "other"))
    return Transformer(tiny_hparams(num_hidden_layers=1), ProblemSpec(name="one-other", members=members))


CASES = {
    "adam": lambda: trained(transformer, clip_grad_norm=1.0),
    "everything": lambda: trained(
        transformer, micro_batches=3, clip_grad_norm=0.5, weight_decay=0.1, ema_decay=0.9, rate=3e-3
    ),
    "two replicas": lambda: trained(transformer, replicas=2, micro_batches=2, clip_grad_norm=1.0, ema_decay=0.9),
    "label smoothing": lambda: trained(lambda: transformer(label_smoothing=0.1, norm_position="pre")),
    **{
        rule: functools.partial(trained, Factors, rule, updates=20)
        for rule in ("adamax", "adafactor", "momentum", "lamb", "muon", "sgd")
    },
    "layers with one table of distances": lambda: trained(
        lambda: transformer(layers=3, positions="relative_bias"), "sgd", replicas=2, micro_batches=2
    ),
    "packed rows": lambda: trained(
        lambda: transformer(layers=2, positions="rotary", packed_length=20), "sgd", examples=packed
    ),
    "adapters": lambda: trained(lambda: transformer(layers=2), "sgd", adapts=True),
    "two problems": lambda: trained(of_two_problems, problems=("one", "other")),
    "an LSTM": lambda: trained(functools.partial(small, LstmSeq2seqAttention), "sgd"),
    "a Neural GPU": lambda: trained(functools.partial(small, NeuralGpu), "sgd", updates=2, rate=1e-3),
}
"""Functions that return arrays by name, keyed by the name of the case."""
