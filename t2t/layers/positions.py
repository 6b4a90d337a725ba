"""Telling positions apart: sinusoids (section 3.5) or learned vectors (Table 3, row E).

Legend: B batch, T length, L longest length, D width.
"""

import keras
import numpy as np
from keras import ops


def sinusoids(length: int, width: int) -> np.ndarray:
    """Returns the paper's position encoding, (length, width) float32.

    Section 3.5: PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d)).
    """
    exponents = np.arange(0, width, 2, dtype=np.float64) / width
    angles = np.arange(length, dtype=np.float64)[:, None] / np.power(10000.0, exponents)[None, :]
    table = np.empty((length, width), dtype=np.float32)
    table[:, 0::2] = np.sin(angles)
    table[:, 1::2] = np.cos(angles)
    return table


class SinusoidalPositions(keras.layers.Layer):
    """Adds the sinusoids to embeddings; sequences may be longer than any seen in training."""

    def __init__(self, width: int, **kwargs):
        super().__init__(**kwargs)
        self.width = width

    def call(self, x_BTD, start=0):
        """Returns (B, T, D): `x_BTD` plus the encodings of positions start..start+T-1; `start` is an int32 scalar."""
        position_T = ops.cast(ops.arange(ops.shape(x_BTD)[1]) + start, "float32")
        exponents = np.arange(0, self.width, 2, dtype=np.float64) / self.width
        inverse = np.power(10000.0, -exponents).astype(np.float32)
        angles = position_T[:, None] * inverse[None, :]
        encoding = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)
        return x_BTD + ops.cast(ops.reshape(encoding, (-1, self.width)), x_BTD.dtype)[None]


class LearnedPositions(keras.layers.Layer):
    """Adds one learned vector a position, up to `length` positions."""

    def __init__(self, length: int, width: int, **kwargs):
        super().__init__(**kwargs)
        self.length = length
        self.width = width

    def build(self, input_shape=None):
        """Creates the table, N(0, D^-1/2) as the embeddings."""
        self.table = self.add_weight(
            name="table",
            shape=(self.length, self.width),
            initializer=keras.initializers.RandomNormal(stddev=self.width**-0.5),
        )

    def call(self, x_BTD, start=0):
        """Returns (B, T, D): `x_BTD` plus the vectors of positions start..start+T-1; later ones repeat the last."""
        position_T = ops.minimum(ops.arange(ops.shape(x_BTD)[1]) + start, self.length - 1)
        return x_BTD + ops.cast(ops.take(self.table, position_T, axis=0), x_BTD.dtype)[None]


def build_positions(kind: str, length: int, width: int, **kwargs) -> keras.layers.Layer | None:
    """Returns the layer of a kind: `sinusoidal`, `learned`, or None for `none`."""
    if kind == "sinusoidal":
        return SinusoidalPositions(width, **kwargs)
    if kind == "learned":
        return LearnedPositions(length, width, **kwargs)
    return None
