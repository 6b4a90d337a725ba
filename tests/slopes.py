"""Training steps of models, among them one whose gradient is given, so that an update can be computed by hand."""

import keras
import numpy as np
from keras import ops

from t2t.backends import backend
from t2t.hparams.groups import OptimizerHParams
from t2t.specs.features import ProblemSpec
from t2t.training.optimizers import build_optimizer
from t2t.training.step import UpdateStep


class Slopes(keras.Model):
    """A model with a given gradient: the loss sum of a batch is w . slopes; its tokens are those of `targets`."""

    def __init__(self, start=(0.0, 0.0), dtype="float32"):
        super().__init__(name="slopes")
        self.precision, self.spec, self.longest_sequence = dtype, ProblemSpec(name="slopes", features={}), None
        self.w = self.add_weight(name="w", shape=(len(start),), initializer=lambda s, dtype: ops.array(start, dtype))
        self.built = True

    def body(self, features, seed=None):
        return features["slopes"]

    def loss_sum(self, hidden, targets):
        loss = ops.sum(ops.cast(hidden, self.precision) * ops.cast(self.w, self.precision))
        return ops.cast(loss, "float32"), ops.sum(ops.cast(targets != 0, "float32"))


def slopes(*rows, tokens=1):
    """Returns a batch with given gradients and number of tokens."""
    return {"slopes": np.array(rows, np.float32), "targets": np.array([[2] * tokens + [0]], np.int32)}


def step_of(build, replicas=1, optimizer="sgd", **options):
    """Returns the training step of the model that `build` makes, on so many replicas."""
    devices = backend().devices(worker_cpu=replicas)
    with devices.scope():
        model, rule = build(), build_optimizer(OptimizerHParams(optimizer=optimizer))
    return UpdateStep(model, rule, devices, **options)


def slope_step(replicas=1, start=(0.0, 0.0), dtype="float32", **options):
    return step_of(lambda: Slopes(start, dtype), replicas, **options)


def weights(step):
    return np.asarray(step.model.w)
