"""SliceNet: the variants that the paper compares, Tensor2Tensor's sets, and small ones.

Source of the network, in the order of its section 3, and of the values, unless a line says otherwise: Kaiser, Gomez and
Chollet, *Depthwise Separable Convolutions for Neural Machine Translation* (2017, arXiv:1706.03059), sections 3 and 4.

Legend: B batch, S source length, T target length, D width, N rows decoded together.
"""

from dataclasses import dataclass

from t2t.hparams.base import HParams, adam_rate, for_copying, for_multi30k, noam_rate
from t2t.hparams.field import UsedWhen, param, training_fraction
from t2t.registry import register_hparams


@dataclass(kw_only=True)
class SliceNetHParams(HParams):
    """An encoder of num_hidden_layers modules and a decoder of modules with attention; each has four steps."""

    num_decoder_layers: int = param(
        0, "Number of modules in the decoder; 0 = num_hidden_layers.", minimum=0, only_shapes=True
    )
    kernel_sizes: tuple[int, ...] = param(
        (3, 3, 15, 15), "Kernel sizes of the four steps of a module, in positions.", only_shapes=True
    )
    dilations: tuple[int, ...] = param((1, 1, 1, 8), "Dilations of the four steps of a module.")
    convolution: str = param(
        "separable", "Convolution. separable: over positions in each channel, then over groups of channels; grouped: "
        "over positions within groups of channels, then over all channels; full: both at once.",
        choices=("separable", "grouped", "full"),
    )  # fmt: skip
    convolution_groups: tuple[int, ...] = param(
        (1,), "Number of channel groups of successive steps, in turn; separable with several is super-separable.",
        used_when=UsedWhen("convolution", ("separable", "grouped")),
    )  # fmt: skip
    dropout: float = training_fraction(0.5, "Dropout rate on the output of every module, a fraction.")

    @property
    def decoder_layers(self) -> int:
        """Number of modules in the decoder."""
        return self.num_decoder_layers or self.num_hidden_layers

    def complaints(self) -> list[str]:
        """Checks the number of steps, that groups divide the channels, and that hidden_size is even."""
        found = []
        for name, values in (("kernel_sizes", self.kernel_sizes), ("dilations", self.dilations)):
            if len(values) != 4 or min(values) < 1:
                found.append(f"hparam {name}={values}: a module has four steps; give four numbers, each 1 or more")
        groups = self.convolution_groups
        if not groups or min(groups) < 1 or any(self.hidden_size % count for count in groups):
            found.append(
                f"hparam convolution_groups={groups} with hidden_size={self.hidden_size}: give one or more divisors"
            )
        if self.hidden_size % 2:
            found.append(f"hparam hidden_size={self.hidden_size} is odd; timing signals need an even width")
        return found


@register_hparams
def slice_net() -> SliceNetHParams:
    """6+4 modules of section 3.1, windows of 3, 3, 15 and 15 positions: 768 channels, separable, dropout 0.5."""
    # The paper gives no training recipe; schedule, Adam and clipping are those of Tensor2Tensor's slicenet_1noam.
    return SliceNetHParams(
        hidden_size=768, num_hidden_layers=6, num_decoder_layers=4, learning_rate=noam_rate(1.0), clip_grad_norm=2.0
    )


@register_hparams
def slice_net_dilated_1248() -> SliceNetHParams:
    """Windows of 3 positions throughout, dilations 1, 2, 4, 8."""
    return slice_net().replace(kernel_sizes=(3, 3, 3, 3), dilations=(1, 2, 4, 8))


@register_hparams
def slice_net_dilated_1124() -> SliceNetHParams:
    """Windows of 3, 7, 7, 7 positions, dilations 1, 1, 2, 4."""
    return slice_net().replace(kernel_sizes=(3, 7, 7, 7), dilations=(1, 1, 2, 4))


@register_hparams
def slice_net_dilated_1112() -> SliceNetHParams:
    """Windows of 3, 7, 15, 15 positions, dilations 1, 1, 1, 2."""
    return slice_net().replace(kernel_sizes=(3, 7, 15, 15), dilations=(1, 1, 1, 2))


@register_hparams
def slice_net_undilated() -> SliceNetHParams:
    """Windows of 3, 7, 15, 31 positions without dilation."""
    return slice_net().replace(kernel_sizes=(3, 7, 15, 31), dilations=(1, 1, 1, 1))


@register_hparams
def slice_net_groups16() -> SliceNetHParams:
    """slice_net_dilated_1248 with sub-separable convolutions of 16 groups."""
    return slice_net_dilated_1248().replace(convolution="grouped", convolution_groups=(16,))


@register_hparams
def slice_net_unseparated() -> SliceNetHParams:
    """slice_net_dilated_1248 with full convolutions."""
    return slice_net_dilated_1248().replace(convolution="full")


@register_hparams
def slice_net_super2() -> SliceNetHParams:
    """slice_net_undilated with super-separable convolutions of 2 groups."""
    return slice_net_undilated().replace(convolution_groups=(2,))


@register_hparams
def slice_net_super3() -> SliceNetHParams:
    """slice_net_undilated with super-separable convolutions of 3 groups."""
    return slice_net_undilated().replace(convolution_groups=(3,))


@register_hparams
def slice_net_super23() -> SliceNetHParams:
    """slice_net_undilated with super-separable convolutions of 3 and 2 groups in turn, so that all channels meet."""
    return slice_net_undilated().replace(convolution_groups=(3, 2))


@register_hparams
def slice_net_full_2048() -> SliceNetHParams:
    """The paper's larger model, SliceNet (Full, 2048): fully separable convolutions of 2048 channels."""
    return slice_net_undilated().replace(hidden_size=2048)


@register_hparams
def slice_net_super_3072() -> SliceNetHParams:
    """The paper's best model, SliceNet (Super 2/3, 3072): super-separable convolutions of 3072 channels."""
    return slice_net_super23().replace(hidden_size=3072)


@register_hparams
def slicenet_1() -> SliceNetHParams:
    """Tensor2Tensor's set of this name: slice_net_super23 with its Adam and a constant rate."""
    return slice_net_super23().replace(
        batch_size=1024,
        optimizer_adam_beta1=0.85,
        optimizer_adam_beta2=0.997,
        optimizer_adam_epsilon=1e-6,
        # Its decay is exponential, by a factor of 1; its warm-up is exponential, and linear here.
        learning_rate_schedule="constant",
        learning_rate=adam_rate(0.05),
        learning_rate_warmup_steps=3000,
    )


@register_hparams
def slicenet_1noam() -> SliceNetHParams:
    """Tensor2Tensor's set of this name: slice_net_super23 in smaller batches."""
    return slice_net_super23().replace(batch_size=1024)


@register_hparams
def slicenet_1tiny() -> SliceNetHParams:
    """Tensor2Tensor's set of this name: 3+2 modules of 128 channels, separable."""
    return slicenet_1().replace(
        hidden_size=128,
        num_hidden_layers=3,
        num_decoder_layers=2,
        convolution_groups=(1,),
        batch_size=512,
        learning_rate_warmup_steps=200,
    )


@register_hparams
def slice_net_multi30k_tiny() -> SliceNetHParams:
    """For Multi30k, as large as transformer_multi30k_tiny: 4+4 modules of 152 channels, dropout 0.15."""
    return for_multi30k(slice_net()).replace(
        hidden_size=152,
        num_hidden_layers=4,
        num_decoder_layers=4,
        dropout=0.15,
        learning_rate=0.003,
        learning_rate_warmup_steps=500,
        clip_grad_norm=1.0,
    )


@register_hparams
def slice_net_tiny() -> SliceNetHParams:
    """Learns to copy and reverse sequences in a minute on two processor cores: 1+1 modules of 64 channels."""
    return for_copying(slice_net()).replace(hidden_size=64, num_hidden_layers=1, num_decoder_layers=1)


# === The network ===

import keras
from keras import ops

from t2t.layers.cache import StepCache
from t2t.layers.positions import SinusoidalPositions
from t2t.layers.residual import CompositeLayer
from t2t.layers.separable_convolution import ConvModule, ConvStep, Separability, SliceSource, SourceAttention, Step
from t2t.layers.tensors import Features
from t2t.models.base import READ_AS_VECTORS, EncoderDecoder
from t2t.registry import register_model
from t2t.specs import INPUTS
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

    def encode(self, features: Features, seed=None) -> SliceSource:
        """Returns the encoder's output and its mask."""
        keep_BS = self.source_embedding.keep(features[INPUTS])
        x_BSD = self.timing(self.source_embedding(features[INPUTS], seed=seed))
        for module in self.encoder:
            x_BSD = module(x_BSD, keep_BS, seed=seed)
        return SliceSource(x_BSD, keep_BS)

    def decode(self, ids, encoded: SliceSource, keep_BT=None, cache: StepCache | None = None, seed=None):
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

    def call(self, x, source: SliceSource, cache: StepCache | None = None):
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

    def call(self, x, source: SliceSource, cache: StepCache | None = None, seed=None):
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
