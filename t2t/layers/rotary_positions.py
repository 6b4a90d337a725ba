"""Rotary positions: Su et al. 2021, *RoFormer* (arXiv:2104.09864).

Legend: B batch, H heads, T positions, K channels of one head.
"""

import numpy as np
from keras import ops

from t2t.layers.positions import wave_frequencies


def rotate(x_BHTK, position_T):
    """Returns each pair of neighbouring channels rotated by an angle of its position (equations 13 and 34).

    Channels 2i and 2i + 1 at position m turn by m * 10000^(-2i/K), so that the product of a query and a key depends on
    their distance and not on where they are. Angles and products are float32; the result has the type of `x_BHTK`.

    Args:
        x_BHTK: queries or keys, K even.
        position_T: (T,) int, or (1,) where all have the same position.
    """
    frequencies = wave_frequencies(x_BHTK.shape[-1], "interleaved").astype(np.float32)
    angles = ops.cast(position_T, "float32")[:, None] * frequencies[None, :]
    sines, cosines = ops.sin(angles), ops.cos(angles)
    x = ops.cast(x_BHTK, "float32")
    first, second = x[..., 0::2], x[..., 1::2]
    rotated = ops.stack([first * cosines - second * sines, second * cosines + first * sines], axis=-1)
    return ops.cast(ops.reshape(rotated, ops.shape(x)), x_BHTK.dtype)
