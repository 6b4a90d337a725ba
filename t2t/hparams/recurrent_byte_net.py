"""Hparams of the recurrent ByteNets, for which the paper gives no sizes: large sets of that time, and small ones.

Kalchbrenner et al., *Neural Machine Translation in Linear Time* (2016, arXiv:1610.10099v2), table 1.
"""

from dataclasses import dataclass

from t2t.hparams.byte_net import DilatedHParams, byte_net
from t2t.hparams.field import UsedWhen, param, redeclared, training_fraction
from t2t.hparams.lstm import DirectedHParams, for_recurrent
from t2t.hparams.recipes import for_copying, for_multi30k
from t2t.registry import register_hparams

_RECURRENT, _CONVOLUTIONAL = (UsedWhen("encoder", (kind,)) for kind in ("recurrent", "convolutional"))


@dataclass(kw_only=True)
class RecurrentByteNetHParams(DirectedHParams, DilatedHParams):
    """An encoder of num_hidden_layers recurrent layers or convolutional blocks, and a recurrent decoder."""

    encoder: str = param(
        "recurrent", "Encoder: recurrent layers, or convolutional with the blocks of ByteNet.",
        choices=("recurrent", "convolutional"),
    )  # fmt: skip
    encoder_direction: str = redeclared(DirectedHParams, "encoder_direction", used_when=_RECURRENT)
    block: str = redeclared(DilatedHParams, "block", used_when=_CONVOLUTIONAL)
    kernel_size: int = redeclared(DilatedHParams, "kernel_size", used_when=_CONVOLUTIONAL)
    dilations: tuple[int, ...] = redeclared(DilatedHParams, "dilations", used_when=_CONVOLUTIONAL)
    num_decoder_layers: int = param(
        2, "Number of decoder layers; the encoder has num_hidden_layers.", minimum=1, only_shapes=True
    )
    dropout: float = training_fraction(
        0.2, "Dropout rate on inputs of recurrent layers, residual branches of blocks and the last output, a fraction."
    )

    def complaints(self) -> list[str]:
        """Applies the checks of the chosen kind of encoder."""
        return (DilatedHParams if self.encoder == "convolutional" else DirectedHParams).complaints(self)


@register_hparams
def recurrent_byte_net() -> RecurrentByteNetHParams:
    """An RNN on top of an RNN: 4+4 layers of 1,000 units, the encoder's in both directions, for characters."""
    # The sizes of Sutskever et al. (2014).
    sizes = RecurrentByteNetHParams(hidden_size=1000, num_hidden_layers=4, num_decoder_layers=4)
    return _for_characters(sizes).replace(encoder_direction="bidirectional")


@register_hparams
def recurrent_byte_net_convolutional() -> RecurrentByteNetHParams:
    """An RNN of 4 layers on top of the encoder of byte_net, 30 blocks of 1,600 channels, for characters."""
    sizes = RecurrentByteNetHParams(hidden_size=1600, num_hidden_layers=30, num_decoder_layers=4)
    return _for_characters(sizes).replace(encoder="convolutional")


@register_hparams
def recurrent_byte_net_multi30k_tiny() -> RecurrentByteNetHParams:
    """For Multi30k, as large as transformer_multi30k_tiny: 2+2 layers of 176 units, dropout 0.3."""
    return _multi30k(recurrent_byte_net()).replace(num_hidden_layers=2)


@register_hparams
def recurrent_byte_net_convolutional_multi30k_tiny() -> RecurrentByteNetHParams:
    """For Multi30k: 5 blocks of 176 channels, 2 layers of 176 units on top of them, dropout 0.3."""
    return _multi30k(recurrent_byte_net_convolutional()).replace(num_hidden_layers=5)


@register_hparams
def recurrent_byte_net_tiny() -> RecurrentByteNetHParams:
    """Learns to copy sequences in a minute on two processor cores: a layer of 64 units that reads, one that writes."""
    sizes = {"hidden_size": 64, "num_hidden_layers": 1, "num_decoder_layers": 1}
    return for_copying(recurrent_byte_net()).replace(**sizes, learning_rate=0.01)


def _for_characters(hparams: RecurrentByteNetHParams) -> RecurrentByteNetHParams:
    """Returns the set with the training recipe of the recurrent models and byte_net's lengths, in characters."""
    return for_recurrent(hparams).replace(
        label_smoothing=0.0, learning_rate=0.0005, max_length=byte_net().max_length, beam_size=byte_net().beam_size
    )


def _multi30k(hparams: RecurrentByteNetHParams) -> RecurrentByteNetHParams:
    sizes = {"hidden_size": 176, "num_decoder_layers": 2}
    return for_multi30k(hparams).replace(**sizes, dropout=0.3, learning_rate=0.003, learning_rate_warmup_steps=500)
