"""Hparams of Deep-Att: the paper's sizes and small ones.

Source of the values, unless a line says otherwise: Zhou et al., *Deep Recurrent Models with Fast-Forward Connections
for Neural Machine Translation* (2016, arXiv:1606.04199), section 4.
"""

from dataclasses import dataclass

from t2t.hparams.field import param
from t2t.hparams.lstm import RecurrentHParams, for_recurrent
from t2t.hparams.recipes import for_copying, for_multi30k
from t2t.registry import register_hparams


@dataclass(kw_only=True)
class DeepAttHParams(RecurrentHParams):
    """An encoder of two columns of num_hidden_layers each, and a decoder stack."""

    num_decoder_layers: int = param(
        7, "Number of decoder layers; encoder columns have num_hidden_layers.", minimum=1, only_shapes=True
    )


@register_hparams
def deep_att() -> DeepAttHParams:
    """The paper's sizes: two columns of 9 layers, 7 layers that write, 512 units each, dropout 0.1."""
    # Trained as the other recurrent models; the two languages share no table.
    return for_recurrent(DeepAttHParams(hidden_size=512, num_hidden_layers=9, num_decoder_layers=7)).replace(
        dropout=0.1, shared_embedding=False, shared_embedding_and_softmax_weights=False, learning_rate=0.0005
    )


@register_hparams
def deep_att_multi30k_tiny() -> DeepAttHParams:
    """For Multi30k, as large as transformer_multi30k_tiny: columns of 4 layers, 3 that write, 96 units, dropout 0.3."""
    sizes = DeepAttHParams(hidden_size=96, num_hidden_layers=4, num_decoder_layers=3)
    return for_multi30k(for_recurrent(sizes)).replace(dropout=0.3, learning_rate=0.003, learning_rate_warmup_steps=500)


@register_hparams
def deep_att_tiny() -> DeepAttHParams:
    """Learns to copy and reverse in minutes on two processor cores: columns of 2 layers, 2 that write, 64 units."""
    return for_copying(for_recurrent(DeepAttHParams(hidden_size=64, num_hidden_layers=2, num_decoder_layers=2)))
