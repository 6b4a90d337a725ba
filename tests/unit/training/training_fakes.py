"""Stand-ins for the parts around a trainer, so that the loop and its callbacks are tested without a model."""

import types

import numpy as np

from t2t.training.objectives import TrainingObjective
from t2t.training.step import UpdateStats
from t2t.training.trainer import Plan, Trainer


class Model:
    """The model that is passed to callbacks."""

    stop_training = False

    def __init__(self):
        self.weights_saved = []

    def save_weights(self, path, overwrite):
        self.weights_saved.append(path)


class Weight:
    """A variable."""

    def __init__(self, path, *values):
        self.path, self._values = path, values

    def __array__(self, dtype=None, copy=None):
        return np.array(self._values, np.float32)


class Step:
    """Records its arguments; every update has loss 6 over 3 tokens, unless listed in `bad` or `empty`.

    The loss scale is `scale`, halved by each bad update as in training; None for none.
    """

    xla, is_compiling, objective, adapters = False, False, TrainingObjective(), None
    optimizer = types.SimpleNamespace(
        variables=[Weight("rate", 0.1), Weight("slot", 2.0)], learning_rate=Weight("rate")
    )

    def __init__(self, replicas=1, bad=(), empty=(), scale=None):
        self.model, self.replicas, self.ema, self.given, self._bad = Model(), replicas, [], [], (*bad, *empty)
        self._empty, self.own = empty, range(replicas)
        self.rehearsed, self.lost, self.saved = [], 0, [Weight("weight", 1.0)]
        self._scale = scale or 1.0
        self.loss_scale = types.SimpleNamespace(dynamic=scale is not None, value=lambda: self._scale, variables=[])

    def __call__(self, micro_batches, update, rate, problem="", stops=False):
        self.given.append((update, rate, [[int(b["targets"][0, 0]) for b in replicas] for replicas in micro_batches]))
        finite, scale = update not in self._bad, self._scale
        self.lost += not finite
        self._scale = scale if finite else max(scale / 2, 1.0)
        if update in self._empty:
            return UpdateStats(0.0, 0.0, 0.0, False, 6.0, 0.0, scale)
        padded = float(sum(batch["targets"].size for replicas in micro_batches for batch in replicas))
        return UpdateStats(6.0 if finite else float("nan"), 3.0, 0.5 * update, finite, padded, float(stops), scale)

    def skipped(self, update):
        return self.lost

    def warm_up(self, micro_batches, problem=""):
        self.rehearsed.append(micro_batches)


def batches():
    """Endless (2, 3) batches filled with 1, 2, 3, ..., with the number of the next as state."""
    number = 0
    while True:
        number += 1
        yield {"inputs": np.ones((2, 4), np.int32), "targets": np.full((2, 3), number, np.int32)}, {"batch": number}


def trainer(step=None, train_steps=4, micro_batches=1, log_every=2, update=0, **options):
    plan = Plan(
        train_steps=train_steps, micro_batches=micro_batches, rate=lambda number: number / 100, log_every=log_every
    )
    return Trainer(step or Step(), batches(), {"batch": 0}, plan, update, **options)
