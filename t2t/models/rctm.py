"""Recurrent Continuous Translation Models (Kalchbrenner and Blunsom 2013): a convolved source, a recurrent target.

Legend: B batch, S source length, U columns of the target, T target length, D width, N rows decoded together.
"""

from typing import Any

import keras
from keras import ops

from t2t.hparams.rctm import Rctm1HParams, Rctm2HParams, RctmHParams
from t2t.layers.beams import repeat_sentences
from t2t.layers.cache import StepCache
from t2t.layers.dropout import Dropout
from t2t.layers.pooling import mean_of_kept
from t2t.layers.residual import build_all
from t2t.layers.sentence_convolution import (
    ConditionedRecurrence,
    InverseNgramConvolutions,
    NgramConvolutions,
    stretch,
    with_zeros,
)
from t2t.layers.sizes import at_least
from t2t.layers.unfolding import columns, unfolded_length
from t2t.models.base import READ_AS_VECTORS
from t2t.models.encoder_decoder import EncoderDecoder
from t2t.registry import register_model
from t2t.specs.constants import INPUTS
from t2t.specs.features import ProblemSpec


class Rctm(EncoderDecoder):
    """Base class of both models: convolutions `encode` the source, and condition a recurrence over the target."""

    hparams_class = RctmHParams
    compiles_with_xla = False
    accepts_inputs = READ_AS_VECTORS

    def __init__(self, hparams: RctmHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        policy, rate = self.dtype_policy, hparams.dropout
        convolutions = (hparams.num_hidden_layers, hparams.activation)
        self.convolutions = NgramConvolutions(*convolutions, dtype=policy, name="convolutions")
        recurrence = (hparams.hidden_size, hparams.activation)
        self.recurrence = ConditionedRecurrence(*recurrence, dtype=policy, name="recurrence")
        names = ("source_dropout", "target_dropout", "output_dropout")
        self.dropouts = [Dropout(rate, dtype=policy, name=name) for name in names]
        self.build()

    def build(self, input_shape=None):
        """Creates every weight."""
        self.build_modality_weights()
        hidden = (None, None, self.hparams.hidden_size)
        build_all((self.convolutions, self.recurrence, *self.dropouts), hidden)

    def read_source(self, features: dict[str, Any], seed=None) -> tuple[Any, Any]:
        """Returns the source's words (B, S, D), zeros at padding, and their number, (B,) int32."""
        inputs = features[INPUTS]
        length_B = ops.sum(ops.cast(self.source_embedding.keep(inputs), "int32"), axis=1)
        x_BSD = self.dropouts[0](self.source_embedding(inputs, seed=seed), seed=seed)
        return with_zeros(x_BSD, length_B), length_B

    def decode(self, ids, encoded, keep_BT=None, cache: StepCache | None = None, seed=None):
        """Returns the recurrence's states after `ids`; see the base class."""
        x = self.dropouts[1](self.target_embedding.before(ids, seed=seed), seed=seed)
        return self.dropouts[2](self.recurrence(x, self.condition(encoded, ids, cache), cache=cache), seed=seed)

    def condition(self, encoded, ids, cache: StepCache | None):
        """Returns the condition of each position of `ids` (B, T), (B, T or 1, D); with a cache, (N, D) for (N,)."""
        raise NotImplementedError


@register_model("rctm_1")
class Rctm1(Rctm):
    """RCTM I: every target word is conditioned on one vector of the source, which convolutions shrink to it."""

    hparams_class = Rctm1HParams

    def encode(self, features: dict[str, Any], seed=None):
        """Returns the source's vector, (B, D): the remaining column, or the mean if several remain."""
        x_BSD, count_B = self.convolutions(*self.read_source(features, seed=seed))
        return mean_of_kept(x_BSD, ops.arange(ops.shape(x_BSD)[1]) < count_B[:, None])

    def condition(self, encoded, ids, cache: StepCache | None):
        """Returns the source's vector; see the base class."""
        if cache is None:
            return encoded[:, None]
        return repeat_sentences(encoded, ops.shape(ids)[0])


@register_model("rctm_2")
class Rctm2(Rctm):
    """RCTM II: n-grams of the source become n-grams of the target, and those a column for each target word."""

    hparams_class = Rctm2HParams

    def build(self, input_shape=None):
        """Creates every weight."""
        hparams, policy = self.hparams, self.dtype_policy
        width, activation = hparams.hidden_size, hparams.activation
        self.translation = keras.layers.Dense(width, activation=activation, dtype=policy, name="translation")
        inverse = (hparams.num_hidden_layers, activation)
        self.inverse = InverseNgramConvolutions(*inverse, dtype=policy, name="inverse")
        super().build(input_shape)
        build_all((self.translation, self.inverse), (None, None, width))

    def encode(self, features: dict[str, Any], seed=None):
        """Returns a column for each position of the unfolded target, (B, U, D), zeros beyond them."""
        x_BSD, length_B = self.read_source(features, seed=seed)
        columns_B, most = self._length(length_B), self._length(ops.shape(x_BSD)[1])
        added = sum(convolution.reach for convolution in self.inverse.convolutions)
        grams = [at_least(1, count - added) for count in (columns_B, most)]
        x_BSD, count_B = self.convolutions(x_BSD, length_B)
        x_BUD = stretch(self.translation(x_BSD), ops.maximum(count_B, 1), *grams)
        x_BUD, _ = self.inverse(x_BUD, grams[0])
        return with_zeros(x_BUD, columns_B)

    def condition(self, encoded, ids, cache: StepCache | None):
        """Returns a column for each position; see the base class."""
        return columns(encoded, ids, cache)

    def _length(self, length):
        return unfolded_length(length, self.hparams.unfolding_factor, self.hparams.unfolding_offset)
