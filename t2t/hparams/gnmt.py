"""Hparams of GNMT: the paper's sizes and small ones.

Source of the values, unless a line says otherwise: Wu et al., *Google's Neural Machine Translation System* (2016,
arXiv:1609.08144), sections 3, 7 and 8.
"""

from dataclasses import dataclass

from t2t.hparams.lstm import RecurrentHParams, for_recurrent
from t2t.hparams.recipes import for_copying, for_multi30k
from t2t.registry import register_hparams


@dataclass(kw_only=True)
class GnmtHParams(RecurrentHParams):
    """Encoder and decoder of num_hidden_layers each; the bottom encoder layer is bidirectional."""

    def complaints(self) -> list[str]:
        """Checks that there are two or more layers, since the second one joins the two directions."""
        if self.num_hidden_layers < 2:
            return [
                f"hparam num_hidden_layers={self.num_hidden_layers}: the encoder of GNMT has one layer in both "
                "directions and at least one above it; give 2 or more"
            ]
        return []


@register_hparams
def gnmt_8_layers() -> GnmtHParams:
    """The paper's sizes: 8+8 layers of 1,024 units, dropout 0.2 as for English-French; Adam alone."""
    # The paper continues with plain gradient descent after 60,000 updates of Adam. The languages share no table.
    return GnmtHParams(
        hidden_size=1024,
        num_hidden_layers=8,
        dropout=0.2,
        shared_embedding=False,
        shared_embedding_and_softmax_weights=False,
        label_smoothing=0.0,
        batch_size=4096,  # about the paper's 128 sentences
        optimizer_adam_beta2=0.999,  # Adam's usual constants, as the paper names none
        optimizer_adam_epsilon=1e-8,
        learning_rate_schedule="constant",
        learning_rate=0.0002,
        learning_rate_warmup_steps=0,
        clip_grad_norm=5.0,
        alpha=0.2,
        coverage_penalty=0.2,
    )


@register_hparams
def gnmt_multi30k_tiny() -> GnmtHParams:
    """For Multi30k, as large as transformer_multi30k_tiny: 4+4 layers of 120 units, dropout 0.3."""
    return for_multi30k(for_recurrent(GnmtHParams(hidden_size=120, num_hidden_layers=4))).replace(
        dropout=0.3, learning_rate=0.003, learning_rate_warmup_steps=500
    )


@register_hparams
def gnmt_tiny() -> GnmtHParams:
    """Learns to copy and reverse in minutes on two processor cores: 3+3 layers of 64 units."""
    return for_copying(for_recurrent(GnmtHParams(hidden_size=64, num_hidden_layers=3)))
