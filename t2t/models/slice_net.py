"""SliceNet, in the order of section 3 of Kaiser, Gomez and Chollet (2017, arXiv:1706.03059).

Legend: B batch, S source length, T target length, D width, N rows decoded together.
"""

from typing import Any

import keras
from keras import ops

from t2t.hparams.slice_net import SliceNetHParams
from t2t.layers.cache import StepCache
from t2t.layers.positions import SinusoidalPositions
from t2t.layers.residual import CompositeLayer, build_all
from t2t.layers.separable_convolution import ConvStep, Separability
from t2t.layers.slice_modules import ConvModule, Source, SourceAttention, Step
from t2t.models.base import READ_AS_VECTORS
from t2t.models.encoder_decoder import EncoderDecoder
from t2t.registry import register_model
from t2t.specs.constants import INPUTS
from t2t.specs.features import ProblemSpec


@register_model
class SliceNet(EncoderDecoder):
    """Depthwise Separable Convolutions for Neural Machine Translation: separable windows, attention without weights."""

    hparams_class = SliceNetHParams
    accepts_inputs = READ_AS_VECTORS

    def __init__(self, hparams: SliceNetHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        policy, width = self.dtype_policy, hparams.hidden_size
        self.timing = SinusoidalPositions(width, dtype=policy, name="timing")
        self.encoder = [
            ConvModule(width, step_settings(hparams), False, hparams.dropout, dtype=policy, name=f"encoder_{i}")
            for i in range(hparams.num_hidden_layers)
        ]
        self.mixer = InputOutputMixer(hparams, dtype=policy, name="mixer")
        self.decoder = [
            AttentionConvModule(hparams, dtype=policy, name=f"decoder_{i}") for i in range(hparams.decoder_layers)
        ]
        self.build()

    def build(self, input_shape=None):
        """Creates every weight."""
        self.build_modality_weights()
        parts = (self.timing, *self.encoder, self.mixer, *self.decoder)
        build_all(parts, (None, None, self.hparams.hidden_size))

    def encode(self, features: dict[str, Any], seed=None) -> Source:
        """Returns the encoder's output and its mask."""
        keep_BS = self.source_embedding.keep(features[INPUTS])
        x_BSD = self.timing(self.source_embedding(features[INPUTS], seed=seed))
        for module in self.encoder:
            x_BSD = module(x_BSD, keep_BS, seed=seed)
        return Source(x_BSD, keep_BS)

    def decode(self, ids, encoded: Source, keep_BT=None, cache: StepCache | None = None, seed=None):
        """Returns the decoder's output after `ids`; see the base class."""
        x = self.mixer(self.target_embedding.before(ids, seed=seed), encoded, cache=cache)
        for module in self.decoder:
            x = module(x, encoded, cache=cache, seed=seed)
        return x


class InputOutputMixer(keras.layers.Layer):
    """IOMixer(i, o) = ConvStep([Attention(i, o); o]), with causal windows of 3 (section 3.3)."""

    def __init__(self, hparams: SliceNetHParams, **kwargs):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.attention = attention_of(hparams, dtype=policy, name="attention")
        # One group of channels, so that the attention's output and the target are mixed.
        kind = Separability("full" if hparams.convolution == "full" else "separable")
        self.mix = ConvStep(hparams.hidden_size, 3, kind, causal=True, dtype=policy, name="step")

    def build(self, input_shape):
        """Builds the parts for (B, T, D)."""
        self.attention.build(input_shape)
        self.mix.build((*input_shape[:-1], 2 * input_shape[-1]))

    def call(self, x, source: Source, cache: StepCache | None = None):
        """Returns (B, T, D), or with a cache (N, D)."""
        return self.mix(ops.concatenate([self.attention(x, source, cache=cache), x], axis=-1), cache=cache)


class AttentionConvModule(CompositeLayer):
    """ConvModule(x) + Attention(source, x), with causal windows (section 3.3)."""

    def __init__(self, hparams: SliceNetHParams, **kwargs):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.module = ConvModule(
            hparams.hidden_size, step_settings(hparams), True, hparams.dropout, dtype=policy, name="module"
        )
        self.attention = attention_of(hparams, dtype=policy, name="attention")

    def call(self, x, source: Source, cache: StepCache | None = None, seed=None):
        """Returns (B, T, D), or with a cache (N, D)."""
        return self.module(x, cache=cache, seed=seed) + self.attention(x, source, cache=cache)


def step_settings(hparams: SliceNetHParams) -> list[Step]:
    """Returns the four steps of a module."""
    pairs = zip(hparams.kernel_sizes, hparams.dilations, strict=True)
    return [(size, dilation, _separability(hparams, i)) for i, (size, dilation) in enumerate(pairs)]


def attention_of(hparams: SliceNetHParams, **kwargs) -> SourceAttention:
    """Returns the attention layer that the hparams describe."""
    return SourceAttention(hparams.hidden_size, [_separability(hparams, i) for i in range(2)], **kwargs)


def _separability(hparams: SliceNetHParams, i: int) -> Separability:
    return Separability(hparams.convolution, hparams.convolution_groups[i % len(hparams.convolution_groups)])
