"""Keys and values of the positions decoded so far.

Legend: N rows decoded together, L longest output, H heads, K channels of one head.
"""

from keras import ops

from t2t.layers.attention import KeysValues


def write_position(cache: KeysValues, new: KeysValues, position) -> KeysValues:
    """Returns the cache with one position's keys and values in it.

    Args:
        cache: (N, H, L, K) each.
        new: (N, H, 1, K) each.
        position: int32 scalar.
    """
    # A select, not a slice update: outside a compiled loop TensorFlow compiles the latter anew for every shape.
    is_new = ops.equal(ops.arange(ops.shape(cache.keys)[2]), position)[None, None, :, None]
    return KeysValues(*(ops.where(is_new, one, old) for old, one in zip(cache, new, strict=True)))
