"""Sequence to sequence learning with LSTMs (Sutskever et al. 2014), and with attention (Bahdanau 2015, Luong 2015).

Legend: B batch, S source length, T target length, D width, V vocabulary, N rows decoded together.
"""

from typing import Any, NamedTuple

import keras
from keras import ops

from t2t.constants import INPUTS, TARGETS
from t2t.features import FeatureKind, ProblemSpec
from t2t.hparams.lstm import LstmAttentionHParams, LstmHParams, RecurrentHParams
from t2t.layers.embedding import Embedding
from t2t.layers.masks import padding_keep
from t2t.layers.output_loss import linear_cross_entropy
from t2t.layers.recurrent import LstmEncoder, LstmState
from t2t.layers.recurrent_attention import Memory
from t2t.layers.recurrent_decoder import DecoderState, LstmDecoder
from t2t.losses import token_weights
from t2t.models.base import SequenceModel
from t2t.registry import register_model


class Encoded(NamedTuple):
    """What the decoder knows of a source sentence."""

    finals: tuple[LstmState, ...]
    """Of each layer the state (B, D) in which the encoder ended."""
    memory: Memory | None
    """What there is to attend to; None without attention."""


class RecurrentModel(SequenceModel):
    """An encoder of LSTMs and a decoder that begins with its last states, layer by layer."""

    accepts_inputs = (FeatureKind.TOKENS,)

    def __init__(self, hparams: RecurrentHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        width, depth = hparams.hidden_size, hparams.num_hidden_layers
        self.target_embedding = self._embedding(spec.targets.vocab_size, "target_embedding")
        shared = hparams.shared_embedding and spec.shared_vocabulary
        self.source_embedding = (
            self.target_embedding if shared else self._embedding(spec.inputs.vocab_size, "source_embedding")
        )
        tied = hparams.shared_embedding_and_softmax_weights
        self.output_embedding = (
            self.target_embedding if tied else self._embedding(spec.targets.vocab_size, "output_embedding")
        )
        self.encoder = LstmEncoder(
            width, depth, hparams.encoder_direction, hparams.dropout, dtype=self.dtype_policy, name="encoder"
        )
        self.decoder = LstmDecoder(
            width, depth, self.mechanism(hparams), hparams.dropout, dtype=self.dtype_policy, name="decoder"
        )
        self.build()

    @staticmethod
    def mechanism(hparams: RecurrentHParams) -> str | None:
        """Returns the kind of attention, or None."""
        return None

    def _embedding(self, vocab_size: int, name: str) -> Embedding:
        return Embedding(vocab_size, self.hparams.hidden_size, dtype=self.dtype_policy, name=name)

    def build(self, input_shape=None):
        """Creates every weight."""
        hidden = (None, None, self.hparams.hidden_size)
        embeddings = (self.target_embedding, self.source_embedding, self.output_embedding)
        for layer in (*embeddings, self.encoder, self.decoder):
            if not layer.built:
                layer.build(hidden)

    def body(self, features: dict[str, Any], seed=None):
        """Returns the decoder's output, (B, T, D); see the base class."""
        encoded = self._encode(features[INPUTS], seed)
        shifted_BT = ops.pad(features[TARGETS][:, :-1], ((0, 0), (1, 0)))
        return self.decoder(self._embed_targets(shifted_BT), encoded.finals, encoded.memory, seed=seed)

    def _encode(self, ids_BS, seed=None) -> Encoded:
        keep_BS = padding_keep(ids_BS)
        output_BSD, finals = self.encoder(self.source_embedding(ids_BS), keep_BS, seed=seed)
        return Encoded(finals, self.decoder.memory(output_BSD, keep_BS))

    def _embed_targets(self, ids):
        # Position 0 has no token before it: its embedding is zero, as the Transformer's, not that of padding.
        x = self.target_embedding(ids)
        return x * ops.cast(padding_keep(ids), x.dtype)[..., None]

    def logits(self, hidden):
        """Returns (..., V) float32; the output layer is a table of embeddings, transposed and unscaled."""
        kernel_VD = ops.cast(self.output_embedding.output_kernel(), hidden.dtype)
        return ops.cast(ops.matmul(hidden, ops.transpose(kernel_VD)), "float32")

    def loss_sum(self, hidden, targets):
        """Returns label-smoothed cross-entropy summed over tokens, and their number."""
        smoothing, kind = self.hparams.label_smoothing, self.hparams.label_smoothing_kind
        kernel_VD = self.output_embedding.output_kernel()
        return linear_cross_entropy(hidden, kernel_VD, targets, smoothing, kind), ops.sum(token_weights(targets))

    def encode(self, features: dict[str, Any]) -> Encoded:
        """Returns the encoder's last states, and its output where the decoder looks at it."""
        return self._encode(features[INPUTS])

    def init_cache(self, encoded: Encoded, rows: Any, length: Any, beams: int = 1) -> DecoderState:
        """Returns the state in which each hypothesis begins, whatever its length will be; see the base class."""
        sentences = ops.shape(encoded.finals[0].hidden)[0]
        sentence_N = ops.arange(rows) // (rows // sentences)
        finals = keras.tree.map_structure(lambda x_BD: ops.take(x_BD, sentence_N, axis=0), encoded.finals)
        return self.decoder.start(finals)

    def decode_step(self, ids_N, position, cache: DecoderState, encoded: Encoded):
        """Returns (N, V) float32 logits and the state after this position."""
        state = self.decoder.step(self._embed_targets(ids_N), cache, encoded.memory)
        return self.logits(state.output), state


@register_model
class LstmSeq2seq(RecurrentModel):
    """Sequence to sequence by LSTMs: all that the decoder knows of the source is the encoder's last states."""

    hparams_class = LstmHParams
    vocabulary_layers = {INPUTS: ("source_embedding",), TARGETS: ("target_embedding", "output_embedding")}


@register_model
class LstmSeq2seqAttention(RecurrentModel):
    """Sequence to sequence by LSTMs with attention, Bahdanau's or Luong's."""

    hparams_class = LstmAttentionHParams
    vocabulary_layers = {INPUTS: ("source_embedding",), TARGETS: ("target_embedding", "output_embedding")}

    @staticmethod
    def mechanism(hparams: LstmAttentionHParams) -> str:
        """Returns the kind of attention."""
        return hparams.attention_mechanism
