"""Dropout whose mask is a function of an explicit seed.

Keras draws masks from hidden state and, under a distribution strategy, gives every replica the same mask. Here the seed
is a tensor that the training step derives from (run seed, update, micro-batch, replica), to which every layer adds its
own number. Without a seed there is no dropout: evaluation passes None.
"""

import math
import zlib

import keras
from keras import ops


class GivenSeed(keras.random.SeedGenerator):
    """A seed generator without state: always returns the seed that it was given."""

    def __init__(self, seed):
        self._given = seed

    def next(self, ordered=True):
        """Returns the (2,) integer seed."""
        return self._given


class SeededLayer(keras.layers.Layer):
    """A layer that draws random numbers from an explicit seed."""

    def build(self, input_shape=None):
        """Derives from the layer's path the number that makes its masks differ from those of other layers."""
        self.salt = zlib.crc32(self.path.encode()) & 0x7FFFFFFF

    def own_seed(self, seed):
        """Returns the seed of this layer's masks, of the same shape."""
        return ops.concatenate([seed[:-1], seed[-1:] + ops.cast(self.salt, seed.dtype)])


class Dropout(SeededLayer):
    """Zeroes a fraction `rate` of the values and scales the rest by 1 / (1 - rate) (section 5.4)."""

    def __init__(self, rate: float, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate

    def call(self, x, seed=None):
        """Returns `x` with dropout under `seed` (2,) int, or `x` itself where seed is None or the rate is 0."""
        if not self.acts(seed):
            return x
        keep = random_keep(ops.shape(x), self.rate, self.own_seed(seed))
        return x * (ops.cast(keep, x.dtype) * (1.0 / (1.0 - self.rate)))

    def acts(self, seed) -> bool:
        """Returns whether anything is dropped."""
        return seed is not None and self.rate > 0.0


def random_keep(shape, rate: float, seed):
    """Returns bool of a shape, each False with a probability of `rate` to the nearest 2^-16, below 1.

    Random bits are the expensive part of dropout, so each value uses only sixteen of them, half a word.
    """
    count = math.prod(shape)
    words = keras.random.randint(((count + 1) // 2, 1), -(2**31), 2**31 - 1, dtype="int32", seed=GivenSeed(seed))
    halves = ops.reshape(ops.view(words, "int16"), (-1,))
    return ops.reshape(halves[:count], shape) >= min(round(rate * 2**16), 2**16 - 1) - 2**15  # an int16


def seed_of_step(seed, i):
    """Returns the seed of the dropout masks of step i, of the same shape; None without a seed."""
    return None if seed is None else ops.concatenate([seed[:1] + ops.cast(i, seed.dtype), seed[1:]])
