"""Columns of a source that a target unfolds over, one for each target position, as long as they reach.

Legend: B batch, U number of columns, D width, N rows decoded together.
"""

from keras import ops


def unfolded_length(length, factor: float, offset: int):
    """Returns a |s| + b rounded up, int32 of the shape of `length` |s| int32 (Kalchbrenner et al. 2016, equation 2)."""
    stretched = ops.cast(length, "float32") * factor
    # Less a little, so that 1.2 * 5 is 6 whatever the last bit of the product.
    return ops.cast(ops.ceil(stretched - 1e-3), "int32") + offset


def resize_length(x_BUD, length):
    """Returns (B, length, D), cut or with zeros at the end."""
    batch, longest, width = ops.shape(x_BUD)
    missing_BXD = ops.zeros((batch, ops.maximum(length - longest, 0), width), x_BUD.dtype)
    return ops.concatenate([x_BUD, missing_BXD], axis=1)[:, :length]


def column_at(x_BUD, position, rows):
    """Returns (N, D), the column at a position for `rows` N of B sentences, zeros beyond the last."""
    last = ops.shape(x_BUD)[1] - 1
    column_BD = ops.take(x_BUD, ops.minimum(position, last), axis=1)
    column_BD = column_BD * ops.cast(position <= last, column_BD.dtype)
    return ops.repeat(column_BD, rows // ops.shape(column_BD)[0], axis=0)
