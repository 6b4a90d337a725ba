"""Hparams of SliceNet: the variants that the paper compares, Tensor2Tensor's sets, and small ones.

Source of the values, unless a line says otherwise: Kaiser, Gomez and Chollet, *Depthwise Separable Convolutions for
Neural Machine Translation* (2017, arXiv:1706.03059), sections 3 and 4.
"""

from dataclasses import dataclass

from t2t.hparams.base import HParams
from t2t.hparams.field import UsedWhen, param, training_fraction
from t2t.hparams.recipes import for_copying, for_multi30k
from t2t.hparams.tensor2tensor_rates import adam_rate, noam_rate
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
