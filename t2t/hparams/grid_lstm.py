"""Hparams of translation by Grid LSTM: the paper's size and small ones.

Source of the values, unless a line says otherwise: Kalchbrenner, Danihelka and Graves, *Grid Long Short-Term Memory*
(2015, arXiv:1507.01526), the section on translation.
"""

from dataclasses import dataclass

from t2t.hparams.base import HParams
from t2t.hparams.field import training_fraction
from t2t.hparams.lstm import for_recurrent
from t2t.hparams.recipes import for_copying, for_multi30k
from t2t.registry import register_hparams


@dataclass(kw_only=True)
class GridLstmHParams(HParams):
    """num_hidden_layers grids over source and target, which alternately read the source forwards and backwards."""

    dropout: float = training_fraction(0.5, "Dropout rate on embeddings and on the output of each grid, a fraction.")


@register_hparams
def grid_lstm() -> GridLstmHParams:
    """The paper's size: two grids of 450 units; dropout 0.5."""
    # Trained as the other recurrent models, in small steps. The two languages share no table.
    return for_recurrent(GridLstmHParams(hidden_size=450, num_hidden_layers=2)).replace(
        batch_size=256,
        shared_embedding=False,
        shared_embedding_and_softmax_weights=False,
        label_smoothing=0.0,
        learning_rate=0.0005,
    )


@register_hparams
def grid_lstm_multi30k_tiny() -> GridLstmHParams:
    """For Multi30k, as large as transformer_multi30k_tiny: two grids of 128 units, dropout 0.3."""
    # Small steps, since each pair of positions takes as much memory as one position of other models.
    return for_multi30k(for_recurrent(GridLstmHParams(hidden_size=128, num_hidden_layers=2))).replace(
        batch_size=490, dropout=0.3, learning_rate=0.003, learning_rate_warmup_steps=500
    )


@register_hparams
def grid_lstm_tiny() -> GridLstmHParams:
    """Learns to copy and reverse in minutes on two processor cores: two grids of 64 units."""
    return for_copying(for_recurrent(GridLstmHParams(hidden_size=64, num_hidden_layers=2)))
