"""Hparams of the recurrent continuous translation models: the paper's size and small ones.

Source of the values, unless a line says otherwise: Kalchbrenner and Blunsom, *Recurrent Continuous Translation Models*
(2013, EMNLP).
"""

from dataclasses import dataclass

from t2t.hparams.base import HParams
from t2t.hparams.field import param, training_fraction
from t2t.hparams.lstm import for_recurrent
from t2t.hparams.recipes import Set, for_copying, for_multi30k
from t2t.registry import register_hparams


@dataclass(kw_only=True)
class RctmHParams(HParams):
    """num_hidden_layers convolutions over the source, with windows of 2, 3, ... words, and a recurrent target model."""

    activation: str = param(
        "tanh", "Non-linearity of convolutions and recurrence: sigmoid, the paper's, or tanh, whose gradients vanish "
        "less.",
        choices=("sigmoid", "tanh"),
    )  # fmt: skip
    dropout: float = training_fraction(0.2, "Dropout rate on embeddings and on the recurrence's output, a fraction.")


@dataclass(kw_only=True)
class Rctm1HParams(RctmHParams):
    """RCTM I: the convolutions encode the source as one vector."""


@dataclass(kw_only=True)
class Rctm2HParams(RctmHParams):
    """RCTM II: the convolutions encode n-grams of the source, which are mapped to columns of the target."""

    unfolding_factor: float = param(
        1.2, "Factor a of the number of target columns, a n + b for a source of length n.", minimum=1.0
    )
    unfolding_offset: int = param(
        0, "Offset b of the number of target columns, a n + b for a source of length n.", minimum=0
    )


@register_hparams
def rctm_1() -> Rctm1HParams:
    """The paper's size: 256 units; windows of 2 to 14 words, which make one vector of up to 92."""
    # Trained as the other recurrent models; the two languages share no table.
    return _published(Rctm1HParams(hidden_size=256, num_hidden_layers=13))


@register_hparams
def rctm_2() -> Rctm2HParams:
    """The paper's size: 256 units, n-grams of four words."""
    return _published(Rctm2HParams(hidden_size=256, num_hidden_layers=2))


@register_hparams
def rctm_1_multi30k_tiny() -> Rctm1HParams:
    """For Multi30k, as large as transformer_multi30k_tiny: 256 units, windows of 2 to 11 words, dropout 0.3."""
    return _multi30k(Rctm1HParams(hidden_size=256, num_hidden_layers=10))


@register_hparams
def rctm_2_multi30k_tiny() -> Rctm2HParams:
    """For Multi30k, as large as transformer_multi30k_tiny: 256 units, n-grams of four words, dropout 0.3."""
    return _multi30k(Rctm2HParams(hidden_size=256, num_hidden_layers=2))


@register_hparams
def rctm_1_tiny() -> Rctm1HParams:
    """Learns to copy most short sequences in a minute on two processor cores: 128 units, windows of 2 to 7 words."""
    return for_copying(for_recurrent(Rctm1HParams(hidden_size=128, num_hidden_layers=6))).replace(learning_rate=0.01)


@register_hparams
def rctm_2_tiny() -> Rctm2HParams:
    """Learns to copy short sequences in a minute on two processor cores: 64 units, n-grams of four words."""
    sizes = Rctm2HParams(hidden_size=64, num_hidden_layers=2, unfolding_factor=1.0)
    return for_copying(for_recurrent(sizes))


def _published(hparams: Set) -> Set:
    return for_recurrent(hparams).replace(
        activation="sigmoid", shared_embedding=False, shared_embedding_and_softmax_weights=False, label_smoothing=0.0
    )


def _multi30k(hparams: Set) -> Set:
    return for_multi30k(for_recurrent(hparams)).replace(
        dropout=0.3, learning_rate=0.003, learning_rate_warmup_steps=500
    )
