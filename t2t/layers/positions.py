"""Position encodings: sinusoids (section 3.5) or learned vectors (Table 3, row E).

Legend: B batch, T length, L longest length, D width. In a decoding step: N rows of one position each.
"""

import keras
import numpy as np
from keras import ops

from t2t.errors import UserError
from t2t.layers.cache import StepCache
from t2t.layers.sinusoids import wave_frequencies


class Positions(keras.layers.Layer):
    """Adds a vector to each position of a sequence."""

    def __init__(self, **kwargs):
        # Otherwise Keras would round positions that are fractions, as counts of words are, to 16 bits.
        super().__init__(autocast=False, **kwargs)

    def call(self, x, position_BT=None, cache: StepCache | None = None):
        """Returns `x`, (B, T, D), plus the vectors of `position_BT` (B, T) int or float32, by default 0 to T - 1.

        With a cache, `x` is (N, D) and has the position of the decoding step.
        """
        if position_BT is not None:
            return x + ops.cast(ops.reshape(self.vectors(ops.reshape(position_BT, (-1,))), ops.shape(x)), x.dtype)
        if cache is None:
            return x + ops.cast(self.vectors(ops.arange(ops.shape(x)[1])), x.dtype)
        return x + ops.cast(self.vectors(ops.reshape(ops.cast(cache.position, "int32"), (1,))), x.dtype)

    def vectors(self, position_T):
        """Returns the vectors of positions, (T, D)."""
        raise NotImplementedError


def _sinusoids_at(position_T, width: int, layout: str):
    """Returns the sinusoids of positions, (T, width) float32."""
    angles = ops.cast(position_T, "float32")[:, None] * wave_frequencies(width, layout).astype(np.float32)[None, :]
    encoding = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1 if layout == "interleaved" else -2)
    return ops.reshape(encoding, (-1, width))


class SinusoidalPositions(Positions):
    """Adds the sinusoids of a layout to embeddings; sequences may be longer than any seen in training.

    The first position of a sequence has the sinusoids of position `first`.
    """

    def __init__(self, width: int, layout: str = "interleaved", first: int = 0, **kwargs):
        super().__init__(**kwargs)
        self.width, self.layout, self.first = width, layout, first

    def vectors(self, position_T):
        """Returns the sinusoids of positions, (T, D) float32."""
        return _sinusoids_at(position_T + self.first, self.width, self.layout)


class LearnedPositions(Positions):
    """Adds one of L learned vectors to each position, initially normal around 0.

    Their standard deviation is that of the embeddings, D^-1/2, unless `deviation` is given.
    """

    def __init__(self, length: int, width: int, deviation: float | None = None, **kwargs):
        super().__init__(**kwargs)
        self.length, self.width = length, width
        self.deviation = width**-0.5 if deviation is None else deviation

    def build(self, input_shape=None):
        """Creates the table (L, D)."""
        normal = keras.initializers.RandomNormal(stddev=self.deviation)
        self.table = self.add_weight(name="table", shape=(self.length, self.width), initializer=normal)

    def vectors(self, position_T):
        """Returns the vectors of positions, (T, D); positions beyond the table get its last one."""
        return ops.take(self.table, ops.minimum(position_T, self.length - 1), axis=0)


class ImagePositions(Positions):
    """Adds sinusoids of the row to the first half of the channels, and of the position in the row to the second.

    Parmar et al. 2018 (arXiv:1802.05751), section 3.1; D is a multiple of 4.
    """

    def __init__(self, width: int, columns: int, layout: str = "interleaved", **kwargs):
        super().__init__(**kwargs)
        self.width, self.columns, self.layout = width, columns, layout

    def vectors(self, position_T):
        """Returns the vectors of positions, (T, D) float32."""
        places = (position_T // self.columns, position_T % self.columns)
        halves = [_sinusoids_at(place_T, self.width // 2, self.layout) for place_T in places]
        return ops.concatenate(halves, axis=-1)


class ClipPositions(Positions):
    """Adds sinusoids of the time to half of the channels of a tubelet, and of its row and column to a quarter each.

    Times are in frames, rows and columns in pixels.

    Args:
        width: D, a multiple of 8.
        grid: rows and columns of tubelets that share frames.
        steps: distance of neighbouring tubelets, in frames and in pixels.
        layout: see `sinusoids`.
    """

    def __init__(
        self, width: int, grid: tuple[int, int], steps: tuple[int, int], layout: str = "interleaved", **kwargs
    ):
        super().__init__(**kwargs)
        self.width, self.grid, self.steps, self.layout = width, grid, steps, layout

    def vectors(self, position_T):
        """Returns the vectors of positions, (T, D) float32; positions run along columns, then rows, then times."""
        (rows, columns), (frames, pixels) = self.grid, self.steps
        times_T = position_T // (rows * columns) * frames
        places = (position_T // columns % rows * pixels, position_T % columns * pixels)
        waves = [_sinusoids_at(times_T, self.width // 2, self.layout)]
        waves += [_sinusoids_at(place_T, self.width // 4, self.layout) for place_T in places]
        return ops.concatenate(waves, axis=-1)


def build_positions(
    kind: str, length: int, width: int, layout: str = "interleaved", first: int = 0, **kwargs
) -> Positions | None:
    """Returns the layer of a kind: `sinusoidal` (see `SinusoidalPositions`) or `learned`; None for all others.

    Raises:
        UserError: `words`, which needs a model that counts words, see `t2t.layers.words`.
    """
    if kind == "words":
        raise UserError("hparam positions=words: this model does not count words; choose other positions")
    if kind == "sinusoidal":
        return SinusoidalPositions(width, layout, first, **kwargs)
    if kind == "learned":
        return LearnedPositions(length, width, **kwargs)
    return None
