"""GNMT, Google's neural machine translation system (Wu et al. 2016, arXiv:1609.08144): deep LSTMs."""

from typing import Any

from t2t.hparams.gnmt import GnmtHParams
from t2t.layers.gnmt import GnmtDecoder, GnmtEncoder
from t2t.models.lstm import LstmSeq2seq
from t2t.registry import register_model


@register_model
class Gnmt(LstmSeq2seq):
    """GNMT: deep recurrent stacks with residual connections; one attention, which all decoder layers read."""

    hparams_class = GnmtHParams

    def build_stacks(self, hparams: Any) -> tuple[GnmtEncoder, GnmtDecoder]:
        """Returns encoder and decoder; see the base class."""
        sizes = (hparams.cell, hparams.hidden_size, hparams.num_hidden_layers, hparams.dropout)
        policy = self.dtype_policy
        return GnmtEncoder(*sizes, dtype=policy, name="encoder"), GnmtDecoder(*sizes, dtype=policy, name="decoder")
