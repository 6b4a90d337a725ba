"""Pooling: one vector from many.

Legend: B batch, P positions, D width.
"""

from keras import ops


def mean_of_kept(x_BPD, keep_BP):
    """Returns (B, D), the mean over the positions where `keep_BP` (B, P) bool is True; zeros if there is none.

    The result has the type of `x_BPD` (B, P, D); sum and count are float32, since bfloat16 cannot represent all counts
    above 256.
    """
    weights_BP1 = ops.cast(keep_BP, "float32")[..., None]
    sum_BD = ops.sum(ops.cast(x_BPD, "float32") * weights_BP1, axis=1)
    return ops.cast(sum_BD / ops.maximum(ops.sum(weights_BP1, axis=1), 1.0), x_BPD.dtype)
