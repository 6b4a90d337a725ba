"""Blocks of the Evolved Transformer that are not attention: figure 3 of So et al. (2019, arXiv:1901.11117).

Legend: B batch, T length, D width, N rows decoded together, F channels inside.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from t2t.layers.attention import MultiHeadAttention
from t2t.layers.cache import KeysValues, StepCache
from t2t.layers.convolution import Convolution
from t2t.layers.dropout import Dropout
from t2t.layers.residual import CompositeLayer
from t2t.layers.separable_convolution import SeparableConvolution


class GatedLinearUnit(CompositeLayer):
    """(x W + b) * sigmoid(x V + c), elementwise * (Dauphin et al. 2016, with windows of one position)."""

    def __init__(self, width: int, **kwargs):
        super().__init__(**kwargs)
        self.values = keras.layers.Dense(width, dtype=self.dtype_policy, name="values")
        self.gates = keras.layers.Dense(width, activation="sigmoid", dtype=self.dtype_policy, name="gates")

    def call(self, x, seed=None):
        """Returns (..., D) of (..., D); `seed` is not used."""
        return self.values(x) * self.gates(x)


class Branches(keras.layers.Layer):
    """SepConv(LayerNorm(left(x) + right(x))): two parallel convolutions, then a joint one on their sum.

    Each branch is followed by its activation and dropout. The narrower of two terms is padded with zeros before a sum;
    so is the result, to the width of x.

    Args:
        left: the wider branch.
        right: the other.
        joint: the convolution of the sum.
        norm: normalises the sum.
        activations: of left and right.
        dropout: rate after both activations.
    """

    def __init__(
        self,
        left: Convolution | SeparableConvolution,
        right: Convolution | SeparableConvolution,
        joint: SeparableConvolution,
        norm: keras.layers.Layer,
        activations: tuple[Callable, Callable],
        dropout: float,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.left, self.right, self.joint, self.norm, self.activations = left, right, joint, norm, activations
        self.dropouts = [
            Dropout(dropout, dtype=self.dtype_policy, name=f"{name}_dropout") for name in ("left", "right")
        ]

    def build(self, input_shape):
        """Builds the parts for (B, T, D)."""
        for part in (self.left, self.right, *self.dropouts):
            part.build(input_shape)
        for part in (self.norm, self.joint):
            part.build((*input_shape[:-1], self.left.channels))

    def call(self, x, keep_BT=None, cache: StepCache | None = None, seed=None):
        """Returns (B, T, D), or with a cache (N, D); positions where `keep_BT` (B, T) is False are read as zeros."""
        branches = zip((self.left, self.right), self.activations, self.dropouts, strict=True)
        left, right = (
            dropout(activate(convolution(x, keep_BT, cache=cache)), seed=seed)
            for convolution, activate, dropout in branches
        )
        both = self.norm(left + _widen(right, self.left.channels))
        return _widen(self.joint(both, keep_BT, cache=cache), x.shape[-1])


def _widen(x, channels: int):
    """Pads (..., F) with zeros to (..., channels)."""
    missing = channels - x.shape[-1]
    return ops.pad(x, [(0, 0)] * (len(x.shape) - 1) + [(0, missing)]) if missing else x


class JointAttention(CompositeLayer):
    """The sum of self-attention and attention to the source, both of the same input."""

    def __init__(self, self_attention: MultiHeadAttention, source_attention: MultiHeadAttention | None, **kwargs):
        super().__init__(**kwargs)
        self.self_attention, self.source_attention = self_attention, source_attention

    def call(self, x, memory: KeysValues | None = None, keep=None, cache: StepCache | None = None, seed=None) -> Any:
        """Returns (B, T, D), or with a cache (N, D); `memory` and `keep` are the source's, None where there is none."""
        found = self.self_attention(x, cache=cache, seed=seed)
        if self.source_attention is None:
            return found
        return found + self.source_attention(x, memory=memory, keep=keep, cache=cache, seed=seed)
