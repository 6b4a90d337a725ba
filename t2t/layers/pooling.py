"""One vector of many.

Legend: B batch, P positions, D width.
"""

from keras import ops


def mean_of_kept(x_BPD, keep_BP):
    """Returns (B, D), the mean over the positions where `keep_BP` (B, P) bool is True; zeros where there is none."""
    weights_BP1 = ops.cast(keep_BP, x_BPD.dtype)[..., None]
    return ops.sum(x_BPD * weights_BP1, axis=1) / ops.maximum(ops.sum(weights_BP1, axis=1), 1.0)
