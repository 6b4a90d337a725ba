"""Attention: section 3.2 of *Attention Is All You Need*.

Legend: B batch, T length of the queries, S length of the keys, D width, H heads, K key channels and U value channels of
one head.
"""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
from keras import ops

from t2t.layers.attention_record import is_recorded, probabilities
from t2t.layers.blockwise_attention import WeightDropout, blockwise_attention
from t2t.layers.dropout import Dropout
from t2t.layers.masks import EVERYTHING, Span, span_keep
from t2t.layers.products import float32_product
from t2t.layers.projection import HeadProjection

BLOCKWISE_FROM = 2048**2
"""Scores of one head from which on attention is computed block by block."""


_without_blockwise_attention = contextvars.ContextVar("without_blockwise_attention", default=False)


@contextlib.contextmanager
def without_blockwise_attention() -> Iterator[None]:
    """Builds programs in which attention is one matrix product however long: to be counted, not to be run."""
    token = _without_blockwise_attention.set(True)
    try:
        yield
    finally:
        _without_blockwise_attention.reset(token)


class KeysValues(NamedTuple):
    """What is attended to, projected: keys (B, H, S, K) and values (B, H, S, U)."""

    keys: Any
    values: Any


def attention_weights(q_BHTK, k_BHSK, keep, layer: str = ""):
    """Returns softmax(q k^T / sqrt(K)) (section 3.2.1, equation 1), (B, H, T, S) float32.

    Args:
        q_BHTK: queries.
        k_BHSK: keys.
        keep: bool, broadcastable to (B, H, T, S); True = may be looked at. None for all.
        layer: path of the layer that attends.
    """
    scale = float(k_BHSK.shape[-1]) ** -0.5
    return probabilities(float32_product(q_BHTK * scale, k_BHSK), keep, layer)


class MultiHeadAttention(keras.layers.Layer):
    """Multi-head attention (section 3.2.2): Concat(head_1..head_h) W^O, head_i = Attention(x W_i^Q, y W_i^K, y W_i^V).

    Args:
        width: D of the output.
        num_heads: H.
        key_channels: H*K, channels of all keys together.
        value_channels: H*U, channels of all values together.
        dropout: rate on the attention weights.
        use_bias: whether the four projections have biases.
        longest: most positions that it is made for. Where lengths are unknown when the program is built, attention by
            blocks is only built in where they may be long.
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        key_channels: int,
        value_channels: int,
        dropout: float,
        use_bias: bool,
        longest: int = 0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.longest = longest
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

    def call(self, x_BTD, keep, seed=None, span: Span = EVERYTHING):
        """Self-attention of (B, T, D): queries, keys and values all come from it; see `attend`. Returns (B, T, D)."""
        q, k, v = self.project(x_BTD, names=("query", "key", "value"))
        return self.attend(q, KeysValues(k, v), keep, seed, span)

    def attend(self, q_BHTK, memory: KeysValues, keep, seed=None, span: Span = EVERYTHING):
        """Returns (B, T, D), as `combine`, for whole sequences: long ones are never compared as one matrix.

        Args:
            q_BHTK: queries.
            memory: keys and values of S positions.
            keep: (B, 1, 1, S) bool, True = may be looked at; None for all.
            seed: of dropout.
            span: which keys each query may look at by position.
        """
        queries, keys = ops.shape(q_BHTK)[2], ops.shape(memory.keys)[2]

        def full_attention():
            seen = span_keep(ops.arange(queries), ops.arange(keys), span)
            joint_keep = keep if seen is None else seen if keep is None else ops.logical_and(keep, seen)
            return self._weighted(q_BHTK, memory, joint_keep, seed)

        def blockwise():
            dropout = WeightDropout(self.dropout.rate, self.dropout.own_seed(seed)) if self.dropout.acts(seed) else None
            return blockwise_attention(q_BHTK, *memory, keep, span, dropout)

        is_long = queries * keys >= BLOCKWISE_FROM
        never_long = not isinstance(is_long, bool) and self.longest**2 < BLOCKWISE_FROM
        if never_long or _without_blockwise_attention.get() or is_recorded():
            is_long = False
        if isinstance(is_long, bool):
            return self._output(blockwise() if is_long else full_attention())
        return self._output(ops.cond(is_long, blockwise, full_attention))

    def query(self, x_BTD):
        """Returns the queries (B, H, T, K) of (B, T, D)."""
        return self.project(x_BTD, names=("query",))[0]

    def keys_values(self, y_BSD) -> KeysValues:
        """Returns the keys and values of (B, S, D)."""
        return KeysValues(*self.project(y_BSD, names=("key", "value")))

    def query_keys_values(self, x_BTD, fused=None):
        """Returns the queries, and the keys and values, of (B, T, D); `fused` as from `fused_weights`."""
        q, k, v = self.project(x_BTD, names=("query", "key", "value"), fused=fused)
        return q, KeysValues(k, v)

    def fused_weights(self):
        """Returns the weights of `query_keys_values` as it multiplies them, to be made once for many calls."""
        return self.project.fused(("query", "key", "value"))

    def combine(self, q_BHTK, memory: KeysValues, keep, seed=None):
        """Returns (B, T, D): what the queries find among the keys, heads concatenated and projected by W^O."""
        return self._output(self._weighted(q_BHTK, memory, keep, seed))

    def _weighted(self, q_BHTK, memory: KeysValues, keep, seed):
        weights = self.dropout(attention_weights(q_BHTK, memory.keys, keep, self.path), seed=seed)
        return ops.matmul(ops.cast(weights, memory.values.dtype), memory.values)

    def _output(self, found_BHTU):
        shape = ops.shape(found_BHTU)
        found = ops.reshape(ops.transpose(found_BHTU, (0, 2, 1, 3)), (-1, self.value_channels))
        return ops.reshape(self.output_layer(found), (shape[0], shape[2], self.output_layer.units))
