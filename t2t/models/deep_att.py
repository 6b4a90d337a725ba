"""Deep-Att (Zhou et al. 2016, arXiv:1606.04199): deep LSTMs with fast-forward connections."""

from typing import Any

from t2t.hparams.deep_att import DeepAttHParams
from t2t.layers.fast_forward import FastForwardDecoder, FastForwardEncoder
from t2t.models.lstm import LstmSeq2seq
from t2t.registry import register_model


@register_model
class DeepAtt(LstmSeq2seq):
    """Deep-Att: recurrent stacks with fast-forward connections, columns of both directions, and attention."""

    hparams_class = DeepAttHParams

    def build_stacks(self, hparams: Any) -> tuple[FastForwardEncoder, FastForwardDecoder]:
        """Returns encoder and decoder; see the base class."""
        cell, policy = (hparams.cell, hparams.hidden_size), self.dtype_policy
        depth, dropout = hparams.num_decoder_layers, hparams.dropout
        encoder = FastForwardEncoder(*cell, hparams.num_hidden_layers, depth, dropout, dtype=policy, name="encoder")
        return encoder, FastForwardDecoder(*cell, depth, dropout, dtype=policy, name="decoder")
