"""Recurrent ByteNets (Kalchbrenner et al. 2016, arXiv:1610.10099): an RNN decoder on top of the source's encoder.

Two rows of the paper's table 1: an RNN on top of ByteNet's convolutions, and an RNN on top of an RNN.

Legend: B batch, S source length, U length of its representation, T target length, D width, N rows decoded together.
"""

from typing import Any

from keras import ops

from t2t.hparams.recurrent_byte_net import RecurrentByteNetHParams
from t2t.layers.cache import StepCache
from t2t.layers.recurrent import RecurrentEncoder
from t2t.layers.recurrent_decoder import CachedRecurrence
from t2t.layers.unfolding import columns, unfolded
from t2t.models.base import READ_AS_VECTORS
from t2t.models.byte_net import DilatedStack
from t2t.models.encoder_decoder import EncoderDecoder
from t2t.registry import register_model
from t2t.specs.constants import INPUTS
from t2t.specs.features import ProblemSpec


@register_model
class RecurrentByteNet(EncoderDecoder):
    """Recurrent ByteNet: an RNN that reads a column of the source with each word, from an RNN or convolutions."""

    hparams_class = RecurrentByteNetHParams
    compiles_with_xla = False
    accepts_inputs = READ_AS_VECTORS

    def __init__(self, hparams: RecurrentByteNetHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        cell, policy = (hparams.cell, hparams.hidden_size), self.dtype_policy
        self.encoder: Any
        if hparams.encoder == "convolutional":
            self.encoder = DilatedStack(hparams, causal=False, dtype=policy, name="encoder")
        else:
            depth, direction = hparams.num_hidden_layers, hparams.encoder_direction
            self.encoder = RecurrentEncoder(*cell, depth, direction, hparams.dropout, dtype=policy, name="encoder")
        depth = hparams.num_decoder_layers
        self.decoder = CachedRecurrence(*cell, depth, hparams.dropout, dtype=policy, name="decoder")
        self.build()

    def build(self, input_shape=None):
        """Creates every weight."""
        self.build_modality_weights()
        width = self.hparams.hidden_size
        self.encoder.build((None, None, width))
        self.decoder.build((None, None, 2 * width))

    def encode(self, features: dict[str, Any], seed=None):
        """Returns the representation of the source (B, U, D), zeros beyond its own end."""
        inputs = features[INPUTS]
        x_BSD, keep_BS = self.source_embedding(inputs, seed=seed), self.source_embedding.keep(inputs)
        x_BUD, keep_BU = unfolded(x_BSD, keep_BS, self.hparams.unfolding_factor, self.hparams.unfolding_offset)
        read = self.encoder(x_BUD, keep_BU, seed=seed)
        # A recurrent encoder also returns its last states, which this decoder does not use.
        x_BUD = read[0] if isinstance(self.encoder, RecurrentEncoder) else read
        return x_BUD * ops.cast(keep_BU, x_BUD.dtype)[..., None]

    def decode(self, ids, encoded, keep_BT=None, cache: StepCache | None = None, seed=None):
        """Returns the decoder's output after `ids`; see the base class."""
        x = ops.concatenate([columns(encoded, ids, cache), self.target_embedding.before(ids, seed=seed)], axis=-1)
        return self.decoder(x, cache=cache, seed=seed)
