"""The attention block of the MultiModel: section 2.2 of Kaiser et al. (2017, arXiv:1706.05137).

Legend: B batch, S source length, T target length, D width, H heads, N rows decoded together.
"""

from typing import Any, NamedTuple

from t2t.layers.attention import MultiHeadAttention
from t2t.layers.cache import KeysValues, StepCache
from t2t.layers.masks import CAUSAL, keys_keep
from t2t.layers.separable_convolution import Separability
from t2t.layers.slice_modules import MixedTarget


class ProjectedSource(NamedTuple):
    """An encoded source, as a block attends to it."""

    source: KeysValues
    """(B, H, S, D / H) each."""
    keep: Any
    """(B, S) bool, True at data."""


class MultiAttention(MixedTarget):
    """SliceNet's block, extended: two steps mix the target, which attends to itself and then to a source.

    m = ConvStep(ConvStep(target + timing)),  q = m + SelfAttention(m),  Attention(q, K source, V source)

    Windows and self-attention are causal. For targets of one position (`is_single`, always without `attends_itself`),
    q = m.
    """

    def __init__(self, width: int, heads: int, attends_itself: bool, **kwargs):
        super().__init__(width, [Separability()] * 2, **kwargs)
        policy, channels = self.dtype_policy, (width, heads, width, width, 0.0, False)
        self.self_attention: Any = None
        if attends_itself:
            self.self_attention = MultiHeadAttention(*channels, span=CAUSAL, dtype=policy, name="self_attention")
        self.source_attention = MultiHeadAttention(*channels, dtype=policy, name="source_attention")

    def memory(self, source_BSD, keep_BS) -> ProjectedSource:
        """Returns the source (B, S, D) as keys and values, each by a pointwise convolution."""
        return ProjectedSource(self.source_attention.keys_values(source_BSD), keep_BS)

    def call(self, x, memory: ProjectedSource, is_single: bool = False, cache: StepCache | None = None):
        """Returns the output of attention to the source, (B, T, D), or with a cache (N, D).

        `is_single`: targets have only one position.
        """
        mixed = self.mixed(x, cache=cache)
        if not is_single:
            mixed = mixed + self.self_attention(mixed, cache=cache)
        return self.source_attention(mixed, memory=memory.source, keep=keys_keep(memory.keep), cache=cache)
