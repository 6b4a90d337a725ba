"""The attention block of the MultiModel: section 2.2 of Kaiser et al. (2017, arXiv:1706.05137).

Legend: B batch, S source length, T target length, D width, H heads, N rows decoded together in groups of K beams,
G = N / K.
"""

from typing import Any, NamedTuple

import keras
from keras import ops

from t2t.layers.attention import KeysValues, MultiHeadAttention
from t2t.layers.cache import Cache, ancestors_keep, write_position
from t2t.layers.masks import CAUSAL, keys_keep
from t2t.layers.positions import SinusoidalPositions
from t2t.layers.separable_convolution import ConvStep, Separability

WINDOW, DILATIONS = 5, (1, 4)
"""Of the two steps that mix a target, as in SliceNet (arXiv:1706.03059, section 3.2), whose block this one widens."""


class Memory(NamedTuple):
    """What is attended to of a source, as a block sees it."""

    source: KeysValues
    """(B, H, S, D / H) each."""
    keep: Any
    """(B, S) bool, True at data."""


class AttentionSource(NamedTuple):
    """What a step attends to."""

    memory: Memory
    """Of the source."""
    past: KeysValues
    """Keys and values of the target's positions before, in a cache of `kind`."""
    ancestors: Any
    """(G, K, L) int32, see `t2t.layers.cache`; with this position."""
    kind: type[Cache]
    fused: Any
    """What `fused_weights` of the self-attention returned."""


class MultiAttention(keras.layers.Layer):
    """A target with timing signals is mixed by two steps, attends to itself, and asks a source.

    m = ConvStep(ConvStep(target + timing)),  q = m + SelfAttention(m),  Attention(q, K source, V source)

    Windows and self-attention end at each position. An answer of one position alone has no others to attend to: for it
    q = m.

    Args:
        width: D.
        heads: H.
        attends_itself: whether there is self-attention; without, every answer is of one position.
    """

    def __init__(self, width: int, heads: int, attends_itself: bool, **kwargs):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.timing = SinusoidalPositions(width, dtype=policy, name="timing")
        self.steps = [
            ConvStep(width, WINDOW, Separability(), dilation=dilation, causal=True, dtype=policy, name=f"step_{i}")
            for i, dilation in enumerate(DILATIONS, start=1)
        ]
        channels = (width, heads, width, width, 0.0, False)
        self.self_attention: Any = None
        if attends_itself:
            self.self_attention = MultiHeadAttention(*channels, dtype=policy, name="self_attention")
        self.source_attention = MultiHeadAttention(*channels, dtype=policy, name="source_attention")

    def build(self, input_shape):
        """Builds the parts for (B, T, D)."""
        for part in (self.timing, *self.steps, self.self_attention, self.source_attention):
            if part is not None:
                part.build(input_shape)

    def memory(self, source_BSD, keep_BS) -> Memory:
        """Returns what the block sees of a source (B, S, D): the two pointwise convolutions, keys and values."""
        return Memory(self.source_attention.keys_values(source_BSD), keep_BS)

    def call(self, x_BTD, memory: Memory, is_single: bool = False):
        """Returns (B, T, D), of each position what it finds in the source; `is_single` where answers have one."""
        mixed = self.timing(x_BTD)
        for step in self.steps:
            mixed = step(mixed)
        if not is_single:
            mixed = mixed + self.self_attention(mixed, None, span=CAUSAL)
        return self.source_attention.attend(self.source_attention.query(mixed), memory.source, keys_keep(memory.keep))

    def empty(self, rows) -> tuple:
        """Returns of each step what its windows reach before the first position."""
        return tuple(step.empty(rows) for step in self.steps)

    def step(self, x_N1D, position, pasts: tuple, attended: AttentionSource):
        """Returns one position (N, 1, D), what the windows of the next reach, and keys and values with this one's."""
        mixed, after = self.timing(x_N1D, start=position), []
        for step, past in zip(self.steps, pasts, strict=True):
            mixed, cached = step.step(mixed, past)
            after.append(cached)
        memory, _, ancestors, kind, fused = attended
        mixed_GKD = ops.reshape(mixed, (-1, ops.shape(ancestors)[1], mixed.shape[-1]))
        query, new = self.self_attention.query_keys_values(mixed_GKD, fused)
        written = write_position(kind, attended.past, new, position)
        query_GKD = mixed_GKD + self.self_attention.combine(query, written, ancestors_keep(ancestors, position))
        query_BQD = ops.reshape(query_GKD, (ops.shape(memory.keep)[0], -1, mixed.shape[-1]))
        attention = self.source_attention
        found = attention.combine(attention.query(query_BQD), memory.source, keys_keep(memory.keep))
        return ops.reshape(found, ops.shape(x_N1D)), tuple(after), written
