"""Dropout whose mask is a function of an explicit seed.

Keras draws its masks from hidden state and, under a distribution strategy, gives every replica the same one. Here the
seed is a tensor that the training step derives from (run seed, update, micro-batch, replica); every layer adds a number
of its own. No seed means no dropout: evaluation passes None.
"""

import zlib

import keras
from keras import ops


class GivenSeed(keras.random.SeedGenerator):
    """A seed generator without state: it hands out the tensor that it was given."""

    def __init__(self, seed):
        self._given = seed

    def next(self, ordered=True):
        """Returns the (2,) integer seed."""
        return self._given


class Dropout(keras.layers.Layer):
    """Zeroes a fraction `rate` of the values and scales the rest by 1 / (1 - rate) (section 5.4)."""

    def __init__(self, rate: float, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate

    def build(self, input_shape=None):
        """Derives the number that sets this layer's masks apart from its place in the model."""
        self.salt = zlib.crc32(self.path.encode()) & 0x7FFFFFFF

    def call(self, x, seed=None):
        """Returns `x` with dropout under `seed` (2,) int, or `x` itself where seed is None or the rate is 0."""
        if seed is None or self.rate == 0.0:
            return x
        own_seed = seed + ops.cast(ops.array([0, self.salt]), seed.dtype)
        keep = keras.random.uniform(ops.shape(x), dtype="float32", seed=GivenSeed(own_seed)) >= self.rate
        return x * (ops.cast(keep, x.dtype) * (1.0 / (1.0 - self.rate)))
