"""Relative positions: Shaw et al. 2018, *Self-Attention with Relative Position Representations* (arXiv:1803.02155).

Legend: B batch, H heads, T queries, S keys, K key channels and U value channels of one head, P queries that differ in
position (T, or 1 if all have the same), N queries of one position, R = 2k + 1 distances.
"""

import keras
from keras import ops

from t2t.layers.products import float32_product


class RelativePositions(keras.layers.Layer):
    """Learned vectors a^K and a^V of each distance from query to key, clipped to -k .. k (section 3.2).

    Attention adds them to keys and values; its heads share them.

    Args:
        max_distance: k. Sequences may have any length: larger distances count as k.
        key_size: K.
        value_size: U.
    """

    def __init__(self, max_distance: int, key_size: int, value_size: int, **kwargs):
        super().__init__(**kwargs)
        self.max_distance, self.key_size, self.value_size = max_distance, key_size, value_size

    def build(self, input_shape=None):
        """Creates both tables, (R, K) and (R, U), Glorot uniform."""
        distances = 2 * self.max_distance + 1
        self.keys = self.add_weight(name="keys", shape=(distances, self.key_size))
        self.values = self.add_weight(name="values", shape=(distances, self.value_size))

    def scores(self, q_BHTK, offset_PS):
        """Returns q (a^K)^T / sqrt(K), what equation 5 adds to the scores of the keys, (B, H, T, S) float32.

        `offset_PS` int32 is the position of each key minus that of the query.
        """
        scaled = q_BHTK * float(self.key_size) ** -0.5
        return _by_position(float32_product, scaled, self._vectors(self.keys, offset_PS, q_BHTK.dtype))

    def weighted(self, weights_BHTS, offset_PS):
        """Returns the sum over keys of weight times a^V, what equation 3 adds to that of the values, (B, H, T, U)."""
        return _by_position(ops.matmul, weights_BHTS, self._vectors(self.values, offset_PS, weights_BHTS.dtype))

    def _vectors(self, table, offset_PS, dtype):
        """Returns the vectors of a table for each query position and key, (P, S, K) or (P, S, U)."""
        # A product copies rows exactly, and its gradient sums in a fixed order, unlike that of a gather.
        row_PS = ops.clip(offset_PS, -self.max_distance, self.max_distance) + self.max_distance
        choice_PSR = ops.one_hot(row_PS, 2 * self.max_distance + 1, dtype=dtype)
        return ops.matmul(choice_PSR, ops.cast(table, dtype))


def _by_position(product, x_BHTC, y_P):
    """Returns a product of each query's row with the matrix of its position, (B, H, T, ...); `y_P` is (P, ., .)."""
    batch, heads, queries, channels = ops.shape(x_BHTC)
    if y_P.shape[0] == 1:
        found = product(ops.reshape(x_BHTC, (1, -1, channels)), y_P)
        return ops.reshape(found, (batch, heads, queries, ops.shape(found)[-1]))
    x_TNC = ops.reshape(ops.transpose(x_BHTC, (2, 0, 1, 3)), (queries, -1, channels))
    found = product(x_TNC, y_P)
    return ops.transpose(ops.reshape(found, (queries, batch, heads, ops.shape(found)[-1])), (1, 2, 0, 3))
