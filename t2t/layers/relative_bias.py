"""Relative position biases: Raffel et al. 2020, *Exploring the Limits of Transfer Learning* (arXiv:1910.10683).

Legend: H heads, S keys, P queries that differ in position (T, or 1 if all have the same), Q = P * S pairs, R buckets.
"""

import keras
import numpy as np
from keras import ops

from t2t.layers.gradients import custom_gradient


class RelativeBias(keras.layers.Layer):
    """Learned scalars of each head for buckets of distances, which attention adds to its scores (section 2.1).

    All self-attention layers of a stack share them.

    Args:
        num_heads: H.
        buckets: R.
        max_distance: all keys at this distance or farther share a bucket.
        causal: whether attention is causal, so that all buckets are for keys before the query.
    """

    def __init__(self, num_heads: int, buckets: int, max_distance: int, causal: bool, **kwargs):
        super().__init__(**kwargs)
        self.num_heads, self.buckets, self.max_distance = num_heads, buckets, max_distance
        self.bucket_of_offset = buckets_of_offsets(buckets, max_distance, causal)

    def build(self, input_shape=None):
        """Creates the table (R, H), Glorot uniform."""
        # Scores are float32 in every precision, and so are their biases.
        self.table = self.add_weight(name="table", shape=(self.buckets, self.num_heads), autocast=False)

    def call(self, offset_PS):
        """Returns what is added to the scores, (1, H, P, S) float32.

        `offset_PS` int32 is the position of each key minus that of the query.
        """
        place_PS = ops.clip(offset_PS, -self.max_distance, self.max_distance) + self.max_distance
        bucket_PS = ops.take(ops.convert_to_tensor(self.bucket_of_offset), place_PS, axis=0)
        # Reshaped, since a function with a custom gradient takes tensors but no variables.
        return ops.transpose(_rows_of(ops.reshape(self.table, self.table.shape), bucket_PS), (2, 0, 1))[None]


def _rows_of(table_RH, bucket_PS):
    """Returns the rows of a table, (P, S, H): exactly, as no product in TensorFloat-32 would be.

    The gradient is a product, which sums in a fixed order, unlike that of a gather.
    """

    @custom_gradient
    def rows_of(table_RH):
        def gradient(*args, upstream=None):
            up_PSH = args[0] if upstream is None else upstream
            rows, heads = table_RH.shape
            choice_QR = ops.reshape(ops.one_hot(bucket_PS, rows, dtype="float32"), (-1, rows))
            return ops.matmul(ops.transpose(choice_QR), ops.reshape(up_PSH, (-1, heads)))

        return ops.take(table_RH, bucket_PS, axis=0), gradient

    return rows_of(table_RH)


def buckets_of_offsets(buckets: int, max_distance: int, causal: bool) -> np.ndarray:
    """Returns the bucket of each offset from -max_distance to max_distance, (2 * max_distance + 1,) int32.

    In causal attention, all buckets are for keys up to the query; otherwise the second half is for keys after it. Half
    of the buckets of a side hold one distance each, from 0. The others hold ranges of distances that grow geometrically
    up to `max_distance`.
    """
    side = buckets if causal else buckets // 2
    exact = side // 2
    before = [_bucket(distance, side, exact, max_distance) for distance in range(max_distance, -1, -1)]
    after = [0 if causal else side + bucket for bucket in before[-2::-1]]
    return np.array([*before, *after], np.int32)


def _bucket(distance: int, side: int, exact: int, max_distance: int) -> int:
    """Returns the bucket of a distance d from 0 to `max_distance`.

    That is d below E, `exact`, and from there on E + floor((N - E) log(d / E) / log(M / E)), at most N - 1; N is `side`
    and M `max_distance`.
    """
    if distance < exact:
        return distance
    ranges = side - exact
    # In integers: rounded logarithms would misplace distances such as 2 E, at the edge of a bucket.
    reached = [b for b in range(ranges) if distance**ranges * exact**b >= exact**ranges * max_distance**b]
    return exact + reached[-1]
