"""Rotary positions: Su et al. 2021, *RoFormer* (arXiv:2104.09864).

Legend: B batch, H heads, T positions, K channels of one head.
"""

import numpy as np
from keras import ops

from t2t.layers.sinusoids import wave_frequencies


def rotate(x_BHTK, position_T):
    """Returns each pair of neighbouring channels rotated by an angle of its position (equations 13 and 34).

    Channels 2i and 2i + 1 at position m turn by m * 10000^(-2i/K), so that the product of a query and a key depends on
    only their distance. Angles and products are float32; the result has the type of `x_BHTK`.

    Args:
        x_BHTK: queries or keys, K even.
        position_T: (T,) int, or (1,) where all have the same position.
    """
    channels = x_BHTK.shape[-1]
    frequencies = np.repeat(wave_frequencies(channels, "interleaved"), 2).astype(np.float32)
    signs = np.tile(np.array([-1, 1], np.float32), channels // 2)
    angles = ops.cast(position_T, "float32")[:, None] * frequencies
    x, shape = ops.cast(x_BHTK, "float32"), ops.shape(x_BHTK)
    # The other channel of each pair. Reversing pairs is several times as fast as strided slices.
    others = ops.reshape(ops.flip(ops.reshape(x, (*shape[:-1], channels // 2, 2)), axis=-1), shape)
    return ops.cast(x * ops.cos(angles) + others * (ops.sin(angles) * signs), x_BHTK.dtype)
