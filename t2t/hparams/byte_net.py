"""Hparams of ByteNet: the paper's sets, Tensor2Tensor's and small ones.

Source of the values, unless a line says otherwise: Kalchbrenner et al., *Neural Machine Translation in Linear Time*
(2016, arXiv:1610.10099v2), sections 3 and 6.
"""

from dataclasses import dataclass

from t2t.hparams.base import HParams
from t2t.hparams.field import param, training_fraction
from t2t.hparams.recipes import for_copying, for_multi30k
from t2t.hparams.tensor2tensor_rates import adam_rate
from t2t.registry import register_hparams


@dataclass(kw_only=True)
class UnfoldingHParams(HParams):
    """Length a n + b over which the target is unfolded, n being the length of the source."""

    unfolding_factor: float = param(
        1.2, "Factor a of the unfolded length a n + b, n being the length of the source.", minimum=1.0
    )
    unfolding_offset: int = param(
        0, "Offset b of the unfolded length a n + b, n being the length of the source.", minimum=0
    )


@dataclass(kw_only=True)
class DilatedHParams(UnfoldingHParams):
    """Stacks of num_hidden_layers blocks of dilated convolutions."""

    block: str = param(
        "relu", "Residual block: relu or multiplicative, the paper's, each block with the next of the dilations; "
        "cascade, Tensor2Tensor's, each block with all of them.", choices=("relu", "multiplicative", "cascade"),
    )  # fmt: skip
    kernel_size: int = param(3, "Kernel size of the convolutions, in positions.", minimum=2, only_shapes=True)
    dilations: tuple[int, ...] = param((1, 2, 4, 8, 16), "Dilations of successive blocks, repeated in turn.")
    dropout: float = training_fraction(0.0, "Dropout rate on the residual branch of each block, a fraction.")

    def complaints(self) -> list[str]:
        """Checks that hidden_size is even, since inner channels are half of it, and that dilations are at least 1."""
        found = []
        if self.block != "cascade" and self.hidden_size % 2:
            found.append(f"hparam hidden_size={self.hidden_size} is odd; block={self.block} has half inside")
        if not self.dilations or min(self.dilations) < 1:
            found.append(f"hparam dilations={self.dilations}: give one or more, each 1 or more")
        return found


@dataclass(kw_only=True)
class ByteNetHParams(DilatedHParams):
    """Two stacks of dilated convolutions, the decoder on top of the encoder, or only the decoder."""

    output_dropout: float = training_fraction(0.0, "Dropout rate on the input of the output layer, a fraction.")


@register_hparams
def byte_net() -> ByteNetHParams:
    """The paper's translation model: 30+30 ReLU blocks of 2d = 1600 channels, dilations 1 to 16, a = 1.2."""
    return ByteNetHParams(
        hidden_size=1600,
        num_hidden_layers=30,
        label_smoothing=0.0,
        max_length=600,  # characters
        optimizer_adam_beta2=0.999,
        optimizer_adam_epsilon=1e-8,
        learning_rate_schedule="constant",
        learning_rate=0.0003,
        learning_rate_warmup_steps=0,
        beam_size=12,
    )


@register_hparams
def byte_net_multiplicative() -> ByteNetHParams:
    """The paper's model with the blocks of its language model: 30+30 of 2d = 1024 channels, multiplicative units."""
    return byte_net().replace(block="multiplicative", hidden_size=1024)


@register_hparams
def bytenet_base() -> ByteNetHParams:
    """Tensor2Tensor's variant: 4+4 cascades of dilations 1 to 8, 768 channels, a = 1.5, dropout 0.2."""
    return byte_net().replace(
        block="cascade",
        hidden_size=768,
        num_hidden_layers=4,
        dilations=(1, 2, 4, 8),
        unfolding_factor=1.5,
        dropout=0.2,
        label_smoothing=0.1,
        max_length=256,
        batch_size=2048,
        optimizer_adam_beta1=0.85,
        optimizer_adam_beta2=0.997,
        optimizer_adam_epsilon=1e-6,
        clip_grad_norm=2.0,
        # Its decay is exponential, by a factor of 1; its warm-up is exponential, and linear here.
        learning_rate_schedule="constant",
        learning_rate=adam_rate(0.05),
        learning_rate_warmup_steps=3000,
        beam_size=4,
    )


@register_hparams
def byte_net_multi30k_tiny() -> ByteNetHParams:
    """For Multi30k, as large as transformer_multi30k_tiny: 5+5 ReLU blocks of 192 channels, dropout 0.3."""
    return for_multi30k(byte_net()).replace(
        hidden_size=192,
        num_hidden_layers=5,
        dropout=0.3,
        learning_rate=0.003,
        learning_rate_warmup_steps=500,
        clip_grad_norm=1.0,
    )


@register_hparams
def byte_net_tiny() -> ByteNetHParams:
    """Learns to copy sequences in a minute on two processor cores: 5+5 ReLU blocks of 64 channels."""
    return for_copying(byte_net()).replace(hidden_size=64, num_hidden_layers=5)


@register_hparams
def byte_net_lm() -> ByteNetHParams:
    """The paper's language model of characters: 30 multiplicative blocks of 2d = 1024 channels, weight decay."""
    return byte_net_multiplicative().replace(
        output_dropout=0.1,  # on the last ReLU (section 5)
        optimizer="adamw",
        weight_decay=0.0001,
        max_length=500,
    )


@register_hparams
def byte_net_lm_tiny() -> ByteNetHParams:
    """A language model of minutes on two processor cores: 10 multiplicative blocks of 128 channels."""
    return byte_net_lm().replace(
        hidden_size=128,
        num_hidden_layers=10,
        learning_rate=0.002,
        learning_rate_warmup_steps=100,
        clip_grad_norm=1.0,
        train_steps=2000,
    )
