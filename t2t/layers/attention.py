"""Attention: section 3.2 of *Attention Is All You Need*.

Legend: B batch, T length of the queries, S length of the keys, D width, H heads, K key channels and U value channels of
one head.
"""

from typing import Any, NamedTuple

import keras
from keras import ops

from t2t.layers.dropout import Dropout
from t2t.layers.masks import score_bias
from t2t.layers.projection import HeadProjection


class KeysValues(NamedTuple):
    """What is attended to, projected: keys (B, H, S, K) and values (B, H, S, U)."""

    keys: Any
    values: Any


def attention_weights(q_BHTK, k_BHSK, keep):
    """Returns softmax(q k^T / sqrt(K)) (section 3.2.1, equation 1), (B, H, T, S) float32.

    Args:
        q_BHTK: queries.
        k_BHSK: keys.
        keep: bool, broadcastable to (B, H, T, S); True = may be looked at.
    """
    scale = float(k_BHSK.shape[-1]) ** -0.5
    scores = ops.cast(ops.matmul(q_BHTK * scale, ops.transpose(k_BHSK, (0, 1, 3, 2))), "float32")
    return ops.softmax(scores + score_bias(keep), axis=-1)


class MultiHeadAttention(keras.layers.Layer):
    """Multi-head attention (section 3.2.2): Concat(head_1..head_h) W^O, head_i = Attention(x W_i^Q, y W_i^K, y W_i^V).

    Args:
        width: D of the output.
        num_heads: H.
        key_channels: H*K, channels of all keys together.
        value_channels: H*U, channels of all values together.
        dropout: rate on the attention weights.
        use_bias: whether the four projections have biases.
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        key_channels: int,
        value_channels: int,
        dropout: float,
        use_bias: bool,
        **kwargs,
    ):
        super().__init__(**kwargs)
        channels = {"query": key_channels, "key": key_channels, "value": value_channels}
        self.project = HeadProjection(num_heads, channels, use_bias, dtype=self.dtype_policy, name="project")
        self.output_layer = keras.layers.Dense(width, use_bias=use_bias, dtype=self.dtype_policy, name="output")
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.value_channels = value_channels

    def build(self, input_shape):
        """Builds the projections for inputs (B, T, D)."""
        self.project.build(input_shape)
        self.output_layer.build((*input_shape[:-1], self.value_channels))
        self.dropout.build()

    def call(self, x_BTD, keep, seed=None):
        """Self-attention of (B, T, D): queries, keys and values all come from it. Returns (B, T, D)."""
        q, k, v = self.project(x_BTD, names=("query", "key", "value"))
        return self.combine(q, KeysValues(k, v), keep, seed)

    def query(self, x_BTD):
        """Returns the queries (B, H, T, K) of (B, T, D)."""
        return self.project(x_BTD, names=("query",))[0]

    def keys_values(self, y_BSD) -> KeysValues:
        """Returns the keys and values of (B, S, D)."""
        return KeysValues(*self.project(y_BSD, names=("key", "value")))

    def query_keys_values(self, x_BTD):
        """Returns the queries, and the keys and values, of (B, T, D)."""
        q, k, v = self.project(x_BTD, names=("query", "key", "value"))
        return q, KeysValues(k, v)

    def combine(self, q_BHTK, memory: KeysValues, keep, seed=None):
        """Returns (B, T, D): what the queries find among the keys, heads concatenated and projected by W^O."""
        weights = self.dropout(attention_weights(q_BHTK, memory.keys, keep), seed=seed)
        found_BHTU = ops.matmul(ops.cast(weights, memory.values.dtype), memory.values)
        shape = ops.shape(found_BHTU)
        found = ops.reshape(ops.transpose(found_BHTU, (0, 2, 1, 3)), (shape[0], shape[2], self.value_channels))
        return self.output_layer(found)
