"""The Evolved Transformer: figure 3 of So, Liang and Le (2019, arXiv:1901.11117).

Legend: B batch, S source length, T target length, D width, F channels inside, N rows decoded together.
"""

from collections.abc import Callable
from typing import Any, Unpack

import keras
from keras import ops

from t2t.hparams.evolved_transformer import EvolvedTransformerHParams
from t2t.layers.attention import MultiHeadAttention
from t2t.layers.cache import KeysValues, StepCache
from t2t.layers.convolution import Convolution
from t2t.layers.dropout import Dropout
from t2t.layers.masks import Span
from t2t.layers.norm import build_norm
from t2t.layers.residual import CompositeLayer
from t2t.layers.separable_convolution import Separability, SeparableConvolution
from t2t.layers.tensors import Named, Tensor
from t2t.models.transformer import (
    Decoder,
    Encoder,
    Transformer,
    build_attention,
    build_feed_forward,
    build_residual,
    build_self_attention,
)
from t2t.registry import register_model


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

    def call(self, x, memory: KeysValues | None = None, keep=None, cache: StepCache | None = None, seed=None) -> Tensor:
        """Returns (B, T, D), or with a cache (N, D); `memory` and `keep` are the source's, None where there is none."""
        found = self.self_attention(x, cache=cache, seed=seed)
        if self.source_attention is None:
            return found
        return found + self.source_attention(x, memory=memory, keep=keep, cache=cache, seed=seed)


@register_model
class EvolvedTransformer(Transformer):
    """Evolved Transformer: layers found by search, with gated linear units and branched convolutions."""

    hparams_class = EvolvedTransformerHParams
    packs_examples = False  # convolutions reach across the examples of a row

    def create_encoder(self, **named: Unpack[Named]) -> Encoder:
        """Returns the unbuilt encoder."""
        return Encoder(self.hparams, EvolvedEncoderLayer, **named)

    def create_decoder(self, has_source: bool, **named: Unpack[Named]) -> Decoder:
        """Returns the unbuilt decoder."""
        return Decoder(self.hparams, has_source, EvolvedDecoderLayer, **named)


class EvolvedEncoderLayer(CompositeLayer):
    """Gated linear unit, branched convolutions, self-attention, feed-forward, each in a residual connection."""

    def __init__(self, hparams: EvolvedTransformerHParams, index: int, **kwargs):
        super().__init__(**kwargs)
        policy, width, reach = self.dtype_policy, hparams.hidden_size, hparams.self_attention_reach
        gated = GatedLinearUnit(width, dtype=policy, name="gated_linear_unit")
        self.gated_linear_unit = build_residual(self, hparams, gated)
        branches = Branches(
            Convolution(hparams.filter_size, 1, dtype=policy, name="left"),
            Convolution(width // 2, 3, dtype=policy, name="right"),
            SeparableConvolution(width // 2, 9, Separability(), dtype=policy, name="joint"),
            build_norm(hparams.norm_type, hparams.norm_epsilon, dtype=policy, name="norm"),
            (ops.relu, ops.relu),
            hparams.layer_prepostprocess_dropout,
            dtype=policy,
            name="branches",
        )
        self.branches = build_residual(self, hparams, branches)
        attention = build_self_attention(self, hparams, Span(reach, reach), is_cached=False)
        self.self_attention = build_residual(self, hparams, attention)
        self.feed_forward = build_feed_forward(self, hparams, index)

    def call(self, x_BSD, keep, keep_BS, seed=None):
        """Returns (B, S, D); `keep` is what `keys_keep` returned, see `Encoder`."""
        x_BSD = self.gated_linear_unit(x_BSD, seed=seed)
        x_BSD = self.branches(x_BSD, keep_BT=keep_BS, seed=seed)
        x_BSD = self.self_attention(x_BSD, keep=keep, seed=seed)
        return self.feed_forward(x_BSD, keep_BT=keep_BS, seed=seed)


class EvolvedDecoderLayer(CompositeLayer):
    """Two attentions side by side, branched convolutions, self-attention, attention to the source, feed-forward."""

    def __init__(self, hparams: EvolvedTransformerHParams, index: int, has_source: bool, **kwargs):
        super().__init__(**kwargs)
        policy, width, span = self.dtype_policy, hparams.hidden_size, Span(hparams.self_attention_reach, 0)
        wide = hparams.replace(num_heads=hparams.wide_heads)
        attention = JointAttention(
            build_self_attention(self, wide, span),
            build_attention(self, hparams, "encdec_attention") if has_source else None,
            dtype=policy,
            name="joint_attention",
        )
        self.joint_attention = build_residual(self, hparams, attention)
        branches = Branches(
            _causal(2 * width, 11, dtype=policy, name="left"),
            _causal(width // 2, 7, dtype=policy, name="right"),
            _causal(width, 7, dtype=policy, name="joint"),
            build_norm(hparams.norm_type, hparams.norm_epsilon, dtype=policy, name="norm"),
            (ops.relu, keras.activations.linear),
            hparams.layer_prepostprocess_dropout,
            dtype=policy,
            name="branches",
        )
        self.branches = build_residual(self, hparams, branches)
        self.self_attention = build_residual(self, hparams, build_self_attention(self, hparams, span))
        self.source_attention: Any = None
        if has_source:
            self.source_attention = build_residual(self, hparams, build_attention(self, hparams, "encdec_attention"))
        self.feed_forward = build_feed_forward(self, hparams, index, hparams.decoder_activation)

    def read_source(self, x_BSD) -> tuple[KeysValues, KeysValues]:
        """Returns the keys and values of the encoder's output (B, S, D) for both attentions to it."""
        layers = (self.joint_attention.layer.source_attention, self.source_attention.layer)
        joint, alone = (layer.keys_values(x_BSD) for layer in layers)
        return joint, alone

    def call(self, x, source, source_keep, _target_keep, keep_BT, cache: StepCache | None = None, seed=None):
        """Returns (B, T, D), or with a cache (N, D); `source` is what `read_source` returned, see `Decoder`.

        Rows are not packed, so there is no mask of targets.
        """
        joint, alone = (None, None) if source is None else source
        x = self.joint_attention(x, memory=joint, keep=source_keep, cache=cache, seed=seed)
        x = self.branches(x, keep_BT=keep_BT, cache=cache, seed=seed)
        x = self.self_attention(x, cache=cache, seed=seed)
        if self.source_attention is not None:
            x = self.source_attention(x, memory=alone, keep=source_keep, cache=cache, seed=seed)
        return self.feed_forward(x, keep_BT=keep_BT, seed=seed)


def _causal(channels: int, kernel_size: int, **named: Unpack[Named]) -> SeparableConvolution:
    return SeparableConvolution(channels, kernel_size, Separability(), causal=True, **named)
