"""Sequence to sequence learning with LSTMs (Sutskever et al. 2014), and with attention (Bahdanau 2015, Luong 2015).

Legend: B batch, S source length, T target length, D width, V vocabulary, N rows decoded together.
"""

from typing import Any, ClassVar, NamedTuple, Self

import keras

from t2t.hparams.lstm import LstmAttentionHParams, LstmHParams, RecurrentHParams
from t2t.layers.beams import repeat_sentences
from t2t.layers.cache import Cache, StepCache
from t2t.layers.recurrent import CellState, RecurrentEncoder
from t2t.layers.recurrent_decoder import Memory, RecurrentDecoder
from t2t.layers.tensors import Features, Size
from t2t.models.base import READ_AS_VECTORS, EncoderDecoder
from t2t.registry import register_model
from t2t.specs import INPUTS
from t2t.specs.features import ProblemSpec


class Encoded(NamedTuple):
    """The encoded source sentences."""

    finals: tuple[CellState, ...]
    """For each decoder layer its initial state (B, D): the encoder's last state, or zeros in some subclasses."""
    memory: Memory | tuple[()]
    """The encoder's output for attention; () without attention."""


@register_model
class LstmSeq2seq(EncoderDecoder):
    """Sequence to sequence with LSTMs: the decoder sees only the encoder's final states."""

    hparams_class: ClassVar[type[RecurrentHParams]] = LstmHParams
    compiles_with_xla = False
    accepts_inputs = READ_AS_VECTORS

    def __init__(self, hparams: RecurrentHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        self.encoder, decoder = self.build_stacks(hparams)
        owners = [] if getattr(hparams, "shared_decoder", True) else [member.name for member in spec.members]
        self.problem_decoders = {name: self._build_decoder(hparams, f"{name}_decoder") for name in owners}
        """By problem, if the problems of a mixture have separate decoders; else empty."""
        self.decoder: keras.layers.Layer = None if owners else decoder
        self.build()

    def build_stacks(self, hparams: Any) -> tuple[keras.layers.Layer, keras.layers.Layer]:
        """Returns encoder and decoder; the encoder returns its output and the initial states of the decoder."""
        sizes = (hparams.cell, hparams.hidden_size, hparams.num_hidden_layers)
        how = (hparams.encoder_direction, hparams.dropout)
        encoder = RecurrentEncoder(*sizes, *how, dtype=self.dtype_policy, name="encoder")
        return encoder, self._build_decoder(hparams, "decoder")

    def _build_decoder(self, hparams: Any, name: str) -> RecurrentDecoder:
        sizes = (hparams.cell, hparams.hidden_size, hparams.num_hidden_layers)
        how = (getattr(hparams, "attention_mechanism", None), hparams.dropout)
        return RecurrentDecoder(*sizes, *how, dtype=self.dtype_policy, name=name)

    def for_problem(self, name: str) -> Self:
        """Returns the model of one problem, with its separate decoder if there is one; see the base class."""
        view = super().for_problem(name)
        if name in self.problem_decoders:
            view.__dict__["decoder"] = self.problem_decoders[name]
        return view

    def encode(self, features: Features, seed=None) -> Encoded:
        """Returns the decoder's initial states, and the encoder's output if the decoder attends to it."""
        inputs = features[INPUTS]
        x_BSD, keep_BS = self.source_embedding(inputs, seed=seed), self.source_embedding.keep(inputs)
        output_BSD, finals = self.encoder(x_BSD, keep_BS, seed=seed)
        return Encoded(finals, self.decoder.memory(output_BSD, keep_BS))

    def decode(self, ids, encoded: Encoded, keep_BT=None, cache: StepCache | None = None, seed=None):
        """Returns the decoder's output after `ids`; see the base class."""
        x = self.target_embedding.before(ids, seed=seed)
        return self.decoder(x, encoded.finals, encoded.memory, keep_BT, cache=cache, seed=seed)

    def init_cache(self, encoded: Encoded, rows: Size, length: Size | None, beams: int = 1) -> Cache:
        """Returns a cache with the decoder's initial state of each hypothesis; see the base class."""
        cache = super().init_cache(encoded, rows, length, beams)
        state = self.decoder.start(repeat_sentences(encoded.finals, rows))
        return cache._replace(states={**cache.states, self.decoder.path: state})


@register_model
class LstmSeq2seqAttention(LstmSeq2seq):
    """Sequence to sequence with LSTMs and attention, Bahdanau's or Luong's."""

    hparams_class = LstmAttentionHParams


@register_model
class LstmSeq2seqAttentionBidirectionalEncoder(LstmSeq2seqAttention):
    """Sequence to sequence with LSTMs and attention: `hidden_size` units read each way, and twice as many write.

    Tensor2Tensor's model of this name. Words and what the output layer reads have `hidden_size` numbers; in
    `lstm_seq2seq_attention` with `encoder_direction=bidirectional`, each direction has half of the units.
    """

    hparams_class = LstmAttentionHParams

    def build_stacks(self, hparams: Any) -> tuple[keras.layers.Layer, keras.layers.Layer]:
        """Returns encoder and decoder; see the base class."""
        wide = hparams.replace(hidden_size=2 * hparams.hidden_size, encoder_direction="bidirectional")
        return super().build_stacks(wide)

    def _build_decoder(self, hparams: Any, name: str) -> RecurrentDecoder:
        sizes = (hparams.cell, 2 * self.hparams.hidden_size, hparams.num_hidden_layers)
        how = (hparams.attention_mechanism, hparams.dropout, self.hparams.hidden_size)
        return RecurrentDecoder(*sizes, *how, dtype=self.dtype_policy, name=name)
