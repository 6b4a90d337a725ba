"""A model whose gradient is given, so that an update can be computed by hand."""

import keras
import numpy as np
import tensorflow as tf

from t2t.hparams.groups import OptimizerHParams
from t2t.training.distribute import build_strategy
from t2t.training.optimizers import build_optimizer
from t2t.training.step import UpdateStep


class Slopes(keras.Model):
    """A model whose gradient is given: the loss of a batch is w . slopes, over as many tokens as `targets` holds."""

    def __init__(self, start=(0.0, 0.0), dtype="float32"):
        super().__init__(name="slopes")
        self.precision = dtype
        self.w = self.add_weight(name="w", shape=(len(start),), initializer=lambda s, dtype: tf.constant(start, dtype))
        self.built = True

    def body(self, features, seed=None):
        return features["slopes"]

    def loss_sum(self, hidden, targets):
        loss = tf.reduce_sum(tf.cast(hidden, self.precision) * tf.cast(self.w, self.precision))
        return tf.cast(loss, tf.float32), tf.reduce_sum(tf.cast(targets != 0, tf.float32))


def slopes(*rows, tokens=1):
    """A batch with these gradients and so many tokens."""
    return {"slopes": np.array(rows, np.float32), "targets": np.array([[2] * tokens + [0]], np.int32)}


def slope_step(replicas=1, start=(0.0, 0.0), dtype="float32", **options):
    strategy = build_strategy(worker_cpu=replicas)
    with strategy.scope():
        model = Slopes(start, dtype)
        optimizer = build_optimizer(OptimizerHParams(optimizer="sgd"))
    return UpdateStep(model, optimizer, strategy, **options)


def weights(step):
    return np.asarray(step.model.w)
