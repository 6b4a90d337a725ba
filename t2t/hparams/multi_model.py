"""Hparams of the MultiModel: the paper's, and small ones.

Source of the values, unless a line says otherwise: Kaiser, Gomez, Shazeer, Vaswani, Parmar, Jones and Uszkoreit, *One
Model To Learn Them All* (2017, arXiv:1706.05137), section 2.
"""

from dataclasses import dataclass

from t2t.hparams.base import HParams, for_copying, noam_rate
from t2t.hparams.field import param, training_fraction
from t2t.hparams.transformer_moe import expert_complaints
from t2t.registry import register_hparams


@dataclass(kw_only=True)
class MultiModelHParams(HParams):
    """An encoder of num_hidden_layers blocks, and a decoder; each has a mixture of experts in its middle."""

    num_decoder_layers: int = param(
        4, "Number of decoder blocks, of convolutions and attention.", minimum=1, only_shapes=True
    )
    kernel_sizes: tuple[int, ...] = param(
        (3, 3, 15, 15), "Kernel sizes of the four steps of a block, in positions.", only_shapes=True
    )
    dilations: tuple[int, ...] = param((1, 1, 1, 8), "Dilations of the four steps of a block.")
    dropout: float = training_fraction(0.4, "Dropout rate at the end of every block, a fraction.")
    num_heads: int = param(8, "Attention heads.", minimum=1)
    num_experts: int = param(60, "Number of experts of each of the two mixtures.", minimum=2, only_shapes=True)
    experts_per_token: int = param(2, "Number of experts that each position uses, less than num_experts.", minimum=1)
    expert_balance: float = param(
        0.01, "Weight of the two load-balancing losses, in nats per target (Shazeer et al. 2017, equations 7 and 11).",
        minimum=0.0, only_trains=True,
    )  # fmt: skip
    filter_size: int = param(2048, "Inner width of an expert, in channels.", minimum=1, only_shapes=True)

    def complaints(self) -> list[str]:
        """Checks the number of steps, that heads and pairs of sinusoids divide the channels, and the experts used."""
        found = []
        for name, values in (("kernel_sizes", self.kernel_sizes), ("dilations", self.dilations)):
            if len(values) != 4 or min(values) < 1:
                found.append(f"hparam {name}={values}: a block has four steps; give four numbers, each 1 or more")
        if self.hidden_size % self.num_heads or self.hidden_size % 2:
            found.append(f"hparam hidden_size={self.hidden_size}: give an even multiple of num_heads={self.num_heads}")
        return found + expert_complaints(self)


@register_hparams
def multi_model() -> MultiModelHParams:
    """The paper's model of a single problem: 6+4 blocks, 60 experts of which each position uses 4, dropout 0.4."""
    # The paper gives neither the width nor the training recipe: these values are from Tensor2Tensor's multimodel_base.
    return MultiModelHParams(
        hidden_size=512,
        filter_size=2048,
        experts_per_token=4,
        batch_size=2048,
        optimizer_adam_beta1=0.85,
        optimizer_adam_beta2=0.997,
        optimizer_adam_epsilon=1e-6,
        clip_grad_norm=2.0,
        learning_rate=noam_rate(0.1),
    )


@register_hparams
def multi_model_8() -> MultiModelHParams:
    """The paper's model of eight problems at once: multi_model with 240 experts."""
    return multi_model().replace(num_experts=240)


@register_hparams
def multi_model_tiny() -> MultiModelHParams:
    """Learns to copy and reverse sequences in minutes on two processor cores: 2+2 blocks of 64 channels, 4 experts."""
    return for_copying(multi_model()).replace(
        hidden_size=64, filter_size=128, num_hidden_layers=2, num_decoder_layers=2, num_heads=4, num_experts=4,
        experts_per_token=2, optimizer_adam_beta1=0.9, optimizer_adam_beta2=0.98,
    )  # fmt: skip


@register_hparams
def multi_model_small() -> MultiModelHParams:
    """Learns four problems at once in an hour on a processor core: multi_model_tiny of 128 channels, with dropout."""
    return multi_model_tiny().replace(
        hidden_size=128,
        filter_size=256,
        dropout=0.1,
        label_smoothing=0.1,
        batch_size=2048,
        learning_rate_schedule="cosine",
        learning_rate=0.002,
        learning_rate_warmup_steps=200,
        train_steps=8000,
        beam_size=4,
    )
