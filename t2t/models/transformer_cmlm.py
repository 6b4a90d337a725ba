"""The Transformer as a conditional masked language model: Ghazvininejad et al. 2019 (arXiv:1904.09324).

It predicts any subset of the words of a target at once, from the source and the other words. Decoding with it is
`t2t.search.mask_predict`.

Legend: B batch, S source length, T target length, D width, L target lengths that can be predicted.
"""

from typing import Any, ClassVar, NamedTuple, Unpack

import keras
from keras import ops

from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.hparams.field import unread_complaints
from t2t.hparams.transformer import TransformerHParams
from t2t.hparams.transformer_cmlm import TransformerCmlmHParams
from t2t.layers.attention import MultiHeadAttention
from t2t.layers.cache import StepCache
from t2t.layers.dropout import GivenSeed, SeededLayer
from t2t.layers.losses import TargetScores, token_weights
from t2t.layers.masks import Span, keys_keep, padding_keep
from t2t.layers.modalities.base import ClassLabel
from t2t.layers.residual import build_all
from t2t.layers.tensors import Features, Named, Tensor
from t2t.models.transformer import (
    AttentionMasks,
    Decoder,
    DecoderLayer,
    EncodedSource,
    Encoder,
    Transformer,
    build_self_attention,
)
from t2t.registry import register_model
from t2t.specs import EOS_ID, INPUTS, PAD_ID, TARGETS
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec

_LAST = 2**31 - 1
"""Larger than every random number."""


class TokenMasks(SeededLayer):
    """Chooses n of the N words of each row uniformly, n itself being uniform from 1 to N."""

    def call(self, is_word_BT, seed=None):
        """Returns which words are masked, (B, T) bool, under `seed` (2,) int; all of them where seed is None.

        `is_word_BT` (B, T) bool tells words from padding and end of sequence.
        """
        if seed is None:
            return is_word_BT
        rows, width = ops.shape(is_word_BT)
        # Integers, which XLA draws like TensorFlow.
        drawn = keras.random.randint(
            (rows, width + 1), -(2**31), _LAST, dtype="int32", seed=GivenSeed(self.own_seed(seed))
        )
        words_B = ops.sum(ops.cast(is_word_BT, "int32"), axis=1)
        share_B = ops.cast(drawn[:, 0], "float32") * 2.0**-32 + 0.5
        count_B = ops.minimum(1 + ops.cast(share_B * ops.cast(words_B, "float32"), "int32"), words_B)
        order_BT = ops.argsort(ops.where(is_word_BT, drawn[:, 1:], _LAST), axis=1)
        return ops.cast(ops.argsort(order_BT, axis=1), "int32") < count_B[:, None]


class EncodedWithLength(NamedTuple):
    """The encoded source sentences."""

    source: EncodedSource
    """Their words, as the decoder attends to them."""
    length: Tensor
    """(B, D): the encoder's output at the LENGTH token."""


class Masked(NamedTuple):
    """What `TransformerCmlm.body` returns."""

    hidden: Tensor
    """(B, T, D): the decoder's output."""
    is_masked: Tensor
    """(B, T) bool: the masked words, which are predicted."""
    length: Tensor
    """(B, D): the input of the length prediction."""


@register_model
class TransformerCmlm(Transformer):
    """A conditional masked language model: predicts any masked words of a target at once, and its length.

    End of sequence is never masked: predicting the length replaces predicting it.
    """

    hparams_class = TransformerCmlmHParams
    accepts_inputs: ClassVar[tuple[FeatureKind | None, ...]] = (FeatureKind.TOKENS,)
    autoregressive = False
    mask_predicts = True
    packs_examples = False
    encoder: Encoder
    """An `Encoder`; never None, as the model always has inputs."""

    @classmethod
    def check_new(cls, hparams: Any, named_set: HParams, spec: ProblemSpec) -> None:
        """Raises UserError for windows, in which the LENGTH token, the first, would not see the end of its sentence."""
        super().check_new(hparams, named_set, spec)
        allowed = {"self_attention_window": (0,)}
        why = "an output's length is predicted at one position, which must see the whole input"
        if found := unread_complaints(hparams, allowed, why):
            raise UserError("; ".join(found))

    def build(self, input_shape=None):
        """Creates every weight."""
        super().build()
        width = self.hparams.hidden_size
        lengths = FeatureSpec(kind=FeatureKind.LABEL, vocab_size=self.hparams.max_length)
        self.length_top = ClassLabel(lengths, width, dtype=self.dtype_policy, name="target_length")
        self.token_masks = TokenMasks(dtype=self.dtype_policy, name="token_masks")
        build_all((self.length_top, self.token_masks), (None, None, width))
        # Unit variance, as scaled embeddings have. One initializer for both would give both the same values.
        self.length_token, self.mask_token = (
            self.add_weight(name=name, shape=(width,), initializer=keras.initializers.RandomNormal(stddev=1.0))
            for name in ("length_token", "mask_token")
        )

    @property
    def longest_sequence(self) -> int:
        """The longest target whose length can be predicted: `max_length`, as in training."""
        return self.hparams.max_length

    def create_decoder(self, has_source: bool, **named: Unpack[Named]) -> "CmlmDecoder":
        """Returns the unbuilt decoder, in which every position attends to all others."""
        return CmlmDecoder(self.hparams, has_source, CmlmDecoderLayer, **named)

    def encode(self, features: Features, seed=None) -> Any:
        """Returns the source as `EncodedWithLength`; the LENGTH token comes before its words (section 2.3)."""
        x_BSD, keep_BS = self.embed_source(features[INPUTS], seed=seed)
        rows, _, width = ops.shape(x_BSD)
        token_B1D = ops.broadcast_to(ops.cast(self.length_token, x_BSD.dtype), (rows, 1, width))
        read_BS = ops.concatenate([ops.ones((rows, 1), "bool"), keep_BS], axis=1)
        x_BSD = self.encoder(ops.concatenate([token_B1D, x_BSD], axis=1), read_BS, seed=seed)
        return EncodedWithLength(self.decoder.read_source(x_BSD[:, 1:], keep_BS), x_BSD[:, 0])

    def length_log_probs(self, encoded: EncodedWithLength):
        """Returns the log-probability of each number of words from 0 on, (B, L) float32."""
        return ops.log_softmax(self.length_top(encoded.length), axis=-1)

    def decode(self, ids, encoded: Any, keep_BT=None, cache: StepCache | None = None, seed=None, position_BT=None):
        """Returns the hidden states from which the words at masked positions are predicted, (B, T, D).

        Args:
            ids: (B, T) int32, end of sequence included; PAD_ID at masked positions.
            encoded: an `EncodedWithLength`.
            keep_BT: bool, True at all positions up to the end of sequence.
            cache: unused, as there are no decoding steps.
            seed: of dropout.
            position_BT: unused, as rows are not packed.
        """
        is_masked_BT = ops.logical_and(ops.equal(ids, PAD_ID), keep_BT)
        x_BTD = self.target_embedding.before(ids, seed=seed)
        x_BTD = ops.where(is_masked_BT[..., None], ops.cast(self.mask_token, x_BTD.dtype), x_BTD)
        x_BTD = self.positions(x_BTD) if self.positions is not None else x_BTD
        return self.decoder(self.target_dropout(x_BTD, seed=seed), encoded.source, keep_BT, seed=seed)

    def body(self, features: Features, seed=None) -> Any:
        """Returns the decoder's output, as `Masked`, for randomly masked words; without a seed all words are masked."""
        targets_BT = features[TARGETS]
        encoded = self.encode(features, seed=seed)
        is_masked_BT = self.token_masks(is_word(targets_BT), seed=seed)
        read_BT = ops.where(is_masked_BT, PAD_ID, targets_BT)
        hidden_BTD = self.decode(read_BT, encoded, padding_keep(targets_BT), seed=seed)
        return Masked(hidden_BTD, is_masked_BT, encoded.length)

    def logits(self, hidden: Masked):
        """Returns (B, T, V) float32; meaningful only at masked words."""
        return self.top(hidden.hidden)

    def loss_sum(self, hidden: Masked, targets):
        """Returns the loss of the masked words and of the length, summed, and the number of these predictions.

        Label smoothing applies only to words.
        """
        masked_BT = ops.where(hidden.is_masked, targets, PAD_ID)
        word_loss, words = self.top.loss_sum(hidden.hidden, masked_BT)
        ended_B = ops.cast(ops.any(ops.equal(targets, EOS_ID), axis=1), "float32")
        length_loss = self.length_top.weighted_nll(hidden.length, count_words(targets), ended_B)
        return word_loss + length_loss, words + ops.sum(ended_B)

    def score_targets(self, features: Features) -> TargetScores:
        """Returns the scores of the targets, (B, T): at end of sequence that of the length, elsewhere of the word.

        All words are masked, so the sum over a row is the log-probability of the target in one iteration.
        """
        masked, targets_BT = self.body(features), features[TARGETS]
        words = self.top.score_targets(masked.hidden, targets_BT)
        length = self.length_top.score_targets(masked.length, count_words(targets_BT))
        is_end_BT = ops.equal(targets_BT, EOS_ID)
        log_probs_BT, correct_BT = (
            ops.where(is_end_BT, of_length[:, None], of_words)
            for of_length, of_words in zip(length, words, strict=True)
        )
        return TargetScores(log_probs_BT * token_weights(targets_BT), correct_BT)


class CmlmDecoder(Decoder):
    """The Transformer's decoder without the causal mask (section 2.1)."""

    is_causal = False

    def masks(self, source: EncodedSource | None, keep_BT, number_BT) -> AttentionMasks:
        """Returns each layer's keys and values of the source, and which keys of source and target hold data."""
        keys_values, source_keep, _ = super().masks(source, keep_BT, number_BT)
        return keys_values, source_keep, keys_keep(keep_BT)


class CmlmDecoderLayer(DecoderLayer):
    """Self-attention to all of the target, attention to the encoder's output, feed-forward."""

    def create_target_reader(
        self, hparams: TransformerHParams, passes: int | None, **settings: Any
    ) -> MultiHeadAttention:
        """Returns the unbuilt self-attention in both directions."""
        reach = hparams.self_attention_reach
        return build_self_attention(self, hparams, Span(reach, reach), is_cached=False, **settings)


def is_word(targets_BT):
    """Returns where targets (B, T) int32 are neither padding nor end of sequence, (B, T) bool."""
    return ops.logical_and(padding_keep(targets_BT), ops.not_equal(targets_BT, EOS_ID))


def count_words(targets_BT):
    """Returns the number of words of each row, (B,) int32."""
    return ops.sum(ops.cast(is_word(targets_BT), "int32"), axis=1)
