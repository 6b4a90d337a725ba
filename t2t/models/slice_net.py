"""SliceNet, in the order of section 3 of Kaiser, Gomez and Chollet (2017, arXiv:1706.03059).

Legend: B batch, S source length, T target length, D width, V vocabulary, N rows decoded together.
"""

from typing import Any, NamedTuple

import keras
from keras import ops

from t2t.hparams.slice_net import SliceNetHParams
from t2t.layers.positions import SinusoidalPositions
from t2t.layers.separable_convolution import ConvStep, Separability
from t2t.layers.slice_modules import ConvModule, Source, SourceAttention, StepSettings
from t2t.models.base import READ_AS_VECTORS, DecodeContext, SequenceModel
from t2t.registry import register_model
from t2t.specs.constants import INPUTS, TARGETS
from t2t.specs.features import ProblemSpec


class DecoderCache(NamedTuple):
    """What the windows of the next position reach, (N, R, D) each."""

    mixer: tuple
    modules: tuple


@register_model
class SliceNet(SequenceModel):
    """Depthwise Separable Convolutions for Neural Machine Translation: separable windows, attention without weights."""

    hparams_class = SliceNetHParams
    accepts_inputs = READ_AS_VECTORS

    def __init__(self, hparams: SliceNetHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        policy, width = self.dtype_policy, hparams.hidden_size
        self.timing = SinusoidalPositions(width, dtype=policy, name="timing")
        self.encoder = [
            ConvModule(width, build_step_settings(hparams), False, hparams.dropout, dtype=policy, name=f"encoder_{i}")
            for i in range(hparams.num_hidden_layers)
        ]
        self.mixer = InputOutputMixer(hparams, dtype=policy, name="mixer")
        self.decoder = [
            AttentionConvModule(hparams, dtype=policy, name=f"decoder_{i}") for i in range(hparams.decoder_layers)
        ]
        self.build()

    def build(self, input_shape=None):
        """Creates every weight."""
        self.build_ends()
        for layer in (self.timing, *self.encoder, self.mixer, *self.decoder):
            layer.build((None, None, self.hparams.hidden_size))

    def body(self, features: dict[str, Any], seed=None):
        """Returns the decoder's output, (B, T, D); see the base class."""
        source = self._encode(features[INPUTS], seed)
        shifted_BT = ops.pad(features[TARGETS][:, :-1], ((0, 0), (1, 0)))
        x_BTD = self.mixer(self.target_embedding.before(shifted_BT), source)
        for module in self.decoder:
            x_BTD = module(x_BTD, source, seed=seed)
        return x_BTD

    def _encode(self, inputs, seed=None) -> Source:
        keep_BS = self.source_embedding.keep(inputs)
        x_BSD = self.timing(self.source_embedding(inputs, seed=seed))
        for module in self.encoder:
            x_BSD = module(x_BSD, keep_BS, seed=seed)
        return Source(x_BSD, keep_BS)

    def encode(self, features: dict[str, Any]) -> Source:
        """Returns the encoder's output, and where it holds data."""
        return self._encode(features[INPUTS])

    def init_cache(self, encoded: Source, rows: Any, length: Any, beams: int = 1) -> DecoderCache:
        """Returns what windows reach before the first position, zeros; see the base class."""
        return DecoderCache(self.mixer.empty(rows), tuple(module.empty(rows) for module in self.decoder))

    def step(self, ids_N, position, cache: DecoderCache, prepared: DecodeContext):
        """Returns (N, D) and what the windows of the next position reach; see the base class."""
        source = prepared.encoded
        x_N1D = self.target_embedding.before(ids_N[:, None])
        x_N1D, mixer = self.mixer.step(x_N1D, position, cache.mixer, source)
        modules = []
        for module, pasts in zip(self.decoder, cache.modules, strict=True):
            x_N1D, cached = module.step(x_N1D, position, pasts, source)
            modules.append(cached)
        return x_N1D[:, 0], DecoderCache(mixer, tuple(modules))


class InputOutputMixer(keras.layers.Layer):
    """IOMixer(i, o) = ConvStep([Attention(i, o); o]), windows of 3 that end at each position (section 3.3)."""

    def __init__(self, hparams: SliceNetHParams, **kwargs):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.attention = attention_of(hparams, dtype=policy, name="attention")
        # In one group of channels, so that what is found and what was written meet.
        kind = Separability("full" if hparams.convolution == "full" else "separable")
        self.mix = ConvStep(hparams.hidden_size, 3, kind, causal=True, dtype=policy, name="step")

    def build(self, input_shape):
        """Builds the parts for (B, T, D)."""
        self.attention.build(input_shape)
        self.mix.build((*input_shape[:-1], 2 * input_shape[-1]))

    def call(self, x_BTD, source: Source):
        """Returns (B, T, D)."""
        return self.mix(ops.concatenate([self.attention(x_BTD, source), x_BTD], axis=-1))

    def empty(self, rows) -> tuple:
        """Returns what windows reach before the first position."""
        return self.attention.empty(rows), self.mix.empty(rows)

    def step(self, x_N1D, position, pasts: tuple, source: Source):
        """Returns one position (N, 1, D), and what the windows of the next reach."""
        found, attention = self.attention.step(x_N1D, position, pasts[0], source)
        mixed, mix = self.mix.step(ops.concatenate([found, x_N1D], axis=-1), pasts[1])
        return mixed, (attention, mix)


class AttentionConvModule(keras.layers.Layer):
    """ConvModule(x) + Attention(source, x), windows that end at each position (section 3.3)."""

    def __init__(self, hparams: SliceNetHParams, **kwargs):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.module = ConvModule(
            hparams.hidden_size, build_step_settings(hparams), True, hparams.dropout, dtype=policy, name="module"
        )
        self.attention = attention_of(hparams, dtype=policy, name="attention")

    def build(self, input_shape):
        """Builds the parts for (B, T, D)."""
        self.module.build(input_shape)
        self.attention.build(input_shape)

    def call(self, x_BTD, source: Source, seed=None):
        """Returns (B, T, D)."""
        return self.module(x_BTD, seed=seed) + self.attention(x_BTD, source)

    def empty(self, rows) -> tuple:
        """Returns what windows reach before the first position."""
        return self.module.empty(rows), self.attention.empty(rows)

    def step(self, x_N1D, position, pasts: tuple, source: Source):
        """Returns one position (N, 1, D), and what the windows of the next reach."""
        y, module = self.module.step(x_N1D, pasts[0])
        found, attention = self.attention.step(x_N1D, position, pasts[1], source)
        return y + found, (module, attention)


def build_step_settings(hparams: SliceNetHParams) -> list[StepSettings]:
    """Returns the settings of a module's four steps."""
    pairs = zip(hparams.kernel_sizes, hparams.dilations, strict=True)
    return [StepSettings(size, dilation, _separability(hparams, i)) for i, (size, dilation) in enumerate(pairs)]


def attention_of(hparams: SliceNetHParams, **kwargs) -> SourceAttention:
    """Returns the layer of attention."""
    return SourceAttention(hparams.hidden_size, [_separability(hparams, i) for i in range(2)], **kwargs)


def _separability(hparams: SliceNetHParams, i: int) -> Separability:
    return Separability(hparams.convolution, hparams.convolution_groups[i % len(hparams.convolution_groups)])
