"""Dynamic unfolding: a target of any length read against a source, column by column (Kalchbrenner et al. 2016, 3.2).

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
    """Returns `length` times `factor`, rounded up, plus `offset` (equation 2).

    Lengths are int, or a tensor of int32; so is the result.
    """
    if isinstance(length, int):
        return math.ceil(np.float32(length) * np.float32(factor) - np.float32(1e-3)) + offset
    # Subtracts a little, so that 1.2 * 5 with its rounding error does not become 7.
    return ops.cast(ops.ceil(ops.cast(length, "float32") * factor - 1e-3), "int32") + offset


def unfolded(x_BSD, keep_BS, factor: float, offset: int) -> tuple[Any, Any]:
    """Returns sources padded with zeros, (B, U, D), and which positions belong to each sentence, (B, U) bool.

    Of a sentence of n positions, True in `keep_BS`, these are `unfolded_length` of n.
    """
    keep = ops.cast(keep_BS, "int32")
    longest = unfolded_length(ops.shape(x_BSD)[1], factor, offset)
    keep_BU = ops.arange(longest)[None, :] < unfolded_length(ops.sum(keep, axis=1), factor, offset)[:, None]
    return resized(x_BSD * ops.cast(keep, x_BSD.dtype)[..., None], longest), keep_BU


def columns(x_BUD, ids, cache: StepCache | None):
    """Returns the columns of a source's representation that the decoder reads, zeros beyond its end.

    For `ids` (B, T) they are (B, T, D), one for each position. With a cache they are (N, D), the column at the step's
    position for each of N ids of B sentences.
    """
    if cache is None:
        return resized(x_BUD, ops.shape(ids)[1])
    last = ops.shape(x_BUD)[1] - 1
    column_BD = ops.take(x_BUD, ops.minimum(cache.position, last), axis=1)
    column_BD = column_BD * ops.cast(cache.position <= last, column_BD.dtype)
    return repeat_sentences(column_BD, ops.shape(ids)[0])


def resized(x_BUD, length):
    """Cuts (B, U, D) to (B, length, D), or pads it with zeros at the end."""
    batch, longest, width = ops.shape(x_BUD)
    missing_BXD = ops.zeros((batch, at_least(0, length - longest), width), x_BUD.dtype)
    return ops.concatenate([x_BUD, missing_BXD], axis=1)[:, :length]
