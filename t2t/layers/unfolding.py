"""Dynamic unfolding: a target of unknown length over a source, position by position (Kalchbrenner et al. 2016, 3.2).

Legend: B batch, S source length, U length of the source's representation, T target length, D width, N rows decoded
together.
"""

import math
from typing import Any

import numpy as np
from keras import ops

from t2t.layers.beams import repeat_sentences
from t2t.layers.cache import StepCache
from t2t.layers.sizes import at_least


def unfolded_length(length, factor: float, offset: int):
    """Returns `factor` times lengths plus `offset`, rounded up, of the type and shape of `length` (equation 2).

    Lengths are int, or a tensor of int32.
    """
    if isinstance(length, int):
        return math.ceil(np.float32(length) * np.float32(factor) - np.float32(1e-3)) + offset
    # A little is subtracted, so that rounding of 1.2 * 5 cannot give 7.
    return ops.cast(ops.ceil(ops.cast(length, "float32") * factor - 1e-3), "int32") + offset


def unfolded(x_BSD, keep_BS, factor: float, offset: int) -> tuple[Any, Any]:
    """Returns sources followed by zeros (B, U, D), and which positions are a sentence's own (B, U) bool.

    A sentence of n positions, True in `keep_BS`, has `factor` n + `offset` of them, rounded up (equation 2).
    """
    keep = ops.cast(keep_BS, "int32")
    longest = unfolded_length(ops.shape(x_BSD)[1], factor, offset)
    keep_BU = ops.arange(longest)[None, :] < unfolded_length(ops.sum(keep, axis=1), factor, offset)[:, None]
    return resized(x_BSD * ops.cast(keep, x_BSD.dtype)[..., None], longest), keep_BU


def columns(x_BUD, ids, cache: StepCache | None):
    """Returns what the decoder reads of a source's representation, zeros beyond its end.

    Of `ids` (B, T) it is (B, T, D), a column for each position. With a cache it is (N, D), the column of the step's
    position for ids (N,) of B sentences.
    """
    if cache is None:
        return resized(x_BUD, ops.shape(ids)[1])
    last = ops.shape(x_BUD)[1] - 1
    column_BD = ops.take(x_BUD, ops.minimum(cache.position, last), axis=1)
    column_BD = column_BD * ops.cast(cache.position <= last, column_BD.dtype)
    return repeat_sentences(column_BD, ops.shape(ids)[0])


def resized(x_BUD, length):
    """Returns (B, length, D), cut or with zeros at the end."""
    batch, longest, width = ops.shape(x_BUD)
    missing_BXD = ops.zeros((batch, at_least(0, length - longest), width), x_BUD.dtype)
    return ops.concatenate([x_BUD, missing_BXD], axis=1)[:, :length]
