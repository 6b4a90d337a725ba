"""Recurrent Continuous Translation Models: a convolved source, a recurrent target.

Convolutions reduce a sentence to n-grams or to one vector, on which a recurrence is conditioned. Source of the networks
and, unless a line says otherwise, of the values: Kalchbrenner and Blunsom, *Recurrent Continuous Translation Models*
(2013, EMNLP).

Legend: B batch, S source length, U columns of the target, T target length, D width, N rows decoded together, W
positions of a window.
"""

from dataclasses import dataclass

from t2t.hparams.base import HParams, Set, for_copying, for_multi30k
from t2t.hparams.field import param, training_fraction
from t2t.hparams.lstm import for_recurrent
from t2t.registry import register_hparams


@dataclass(kw_only=True)
class RctmHParams(HParams):
    """num_hidden_layers convolutions over the source, with windows of 2, 3, ... words, and a recurrent target model."""

    activation: str = param(
        "tanh", "Non-linearity of convolutions and recurrence: sigmoid, the paper's, or tanh, whose gradients vanish "
        "less.",
        choices=("sigmoid", "tanh"),
    )  # fmt: skip
    dropout: float = training_fraction(0.2, "Dropout rate on embeddings and on the recurrence's output, a fraction.")


@dataclass(kw_only=True)
class Rctm1HParams(RctmHParams):
    """RCTM I: the convolutions encode the source as one vector."""


@dataclass(kw_only=True)
class Rctm2HParams(RctmHParams):
    """RCTM II: the convolutions encode n-grams of the source, which are mapped to columns of the target."""

    unfolding_factor: float = param(
        1.2, "Factor a of the number of target columns, a n + b for a source of length n.", minimum=1.0
    )
    unfolding_offset: int = param(
        0, "Offset b of the number of target columns, a n + b for a source of length n.", minimum=0
    )


@register_hparams
def rctm_1() -> Rctm1HParams:
    """The paper's size: 256 units; windows of 2 to 14 words, which make one vector of up to 92."""
    # Trained as the other recurrent models; the two languages share no table.
    return _published(Rctm1HParams(hidden_size=256, num_hidden_layers=13))


@register_hparams
def rctm_2() -> Rctm2HParams:
    """The paper's size: 256 units, n-grams of four words."""
    return _published(Rctm2HParams(hidden_size=256, num_hidden_layers=2))


@register_hparams
def rctm_1_multi30k_tiny() -> Rctm1HParams:
    """For Multi30k, as large as transformer_multi30k_tiny: 256 units, windows of 2 to 11 words, dropout 0.3."""
    return _multi30k(Rctm1HParams(hidden_size=256, num_hidden_layers=10))


@register_hparams
def rctm_2_multi30k_tiny() -> Rctm2HParams:
    """For Multi30k, as large as transformer_multi30k_tiny: 256 units, n-grams of four words, dropout 0.3."""
    return _multi30k(Rctm2HParams(hidden_size=256, num_hidden_layers=2))


@register_hparams
def rctm_1_tiny() -> Rctm1HParams:
    """Learns to copy most short sequences in a minute on two processor cores: 128 units, windows of 2 to 7 words."""
    return for_copying(for_recurrent(Rctm1HParams(hidden_size=128, num_hidden_layers=6))).replace(learning_rate=0.01)


@register_hparams
def rctm_2_tiny() -> Rctm2HParams:
    """Learns to copy short sequences in a minute on two processor cores: 64 units, n-grams of four words."""
    sizes = Rctm2HParams(hidden_size=64, num_hidden_layers=2, unfolding_factor=1.0)
    return for_copying(for_recurrent(sizes))


def _published(hparams: Set) -> Set:
    return for_recurrent(hparams).replace(
        activation="sigmoid", shared_embedding=False, shared_embedding_and_softmax_weights=False, label_smoothing=0.0
    )


def _multi30k(hparams: Set) -> Set:
    return for_multi30k(for_recurrent(hparams)).replace(
        dropout=0.3, learning_rate=0.003, learning_rate_warmup_steps=500
    )


# === The network ===

import keras
from keras import ops

from t2t.layers.beams import repeat_sentences
from t2t.layers.cache import CachingLayer, StepCache
from t2t.layers.convolution import DepthwiseConvolution, columns, unfolded_length
from t2t.layers.dropout import Dropout
from t2t.layers.loops import scan
from t2t.layers.masks import mean_of_kept
from t2t.layers.residual import CompositeLayer
from t2t.layers.tensors import Features, Tensor, at_least
from t2t.models.base import READ_AS_VECTORS, EncoderDecoder
from t2t.registry import register_model
from t2t.specs import INPUTS
from t2t.specs.features import ProblemSpec


class NgramConvolutions(CompositeLayer):
    """Convolutions with windows of 2, 3, ... words, each of which removes W - 1 columns (section 3.3).

    Channels are convolved separately. A window as wide as the remaining columns, or wider, leaves one column, which
    later convolutions pass on. After windows of 2 and 3, a column represents an n-gram of four words.
    """

    def __init__(self, count: int, activation: str, **kwargs):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.convolutions = [
            DepthwiseConvolution(size, dtype=policy, name=f"windows_{size}") for size in range(2, count + 2)
        ]
        self.activation = keras.activations.get(activation)

    def call(self, x_BSD, length_B):
        """Returns the columns (B, at most S, D), zeros after the last, and their number, (B,) int32."""
        for convolution in self.convolutions:
            after_B = ops.maximum(length_B - convolution.reach, 1)
            y_BSD = _windows(convolution, ops.pad(x_BSD, ((0, 0), (0, convolution.reach), (0, 0))))
            y_BSD = with_zeros(self.activation(y_BSD), after_B)
            x_BSD = ops.where((length_B > 1)[:, None, None], y_BSD, x_BSD)
            x_BSD = x_BSD[:, : at_least(1, ops.shape(x_BSD)[1] - convolution.reach)]
            length_B = ops.minimum(length_B, after_B)
        return x_BSD, length_B


class InverseNgramConvolutions(NgramConvolutions):
    """The inverse convolutions (section 4.2): windows of ..., 3, 2 words, each of which adds W - 1 columns."""

    def call(self, x_BSD, length_B):
        """Returns the columns (B, S + added columns, D), zeros after the last, and their number, (B,) int32."""
        for convolution in reversed(self.convolutions):
            length_B = length_B + convolution.reach
            both = (convolution.reach, convolution.reach)
            y_BSD = _windows(convolution, ops.pad(x_BSD, ((0, 0), both, (0, 0))))
            x_BSD = with_zeros(self.activation(y_BSD), length_B)
        return x_BSD, length_B


def _windows(convolution: DepthwiseConvolution, x_BSD):
    """Returns one column for each W neighbours, (B, S - W + 1, D)."""
    return convolution.convolve(x_BSD[:, :, None])[:, :, 0]


def with_zeros(x_BSD, length_B):
    """Returns the columns (B, S, D) with zeros from the `length_B`-th on."""
    keep_BS = ops.arange(ops.shape(x_BSD)[1])[None, :] < length_B[:, None]
    return x_BSD * ops.cast(keep_BS, x_BSD.dtype)[..., None]


def stretch(x_BSD, length_B, wanted_B, most):
    """Returns (B, most, D): the first `length_B` columns, each repeated or skipped to make `wanted_B`, then zeros."""
    columns = ops.arange(most, dtype="int32")[None, :]
    # The middle of column j of w is at (j + 1/2) / w of the whole.
    read_BS = (2 * columns + 1) * length_B[:, None] // (2 * wanted_B[:, None])
    chosen = ops.one_hot(ops.minimum(read_BS, length_B[:, None] - 1), ops.shape(x_BSD)[1], dtype=x_BSD.dtype)
    return with_zeros(ops.matmul(chosen, x_BSD), wanted_B)


class ConditionedRecurrence(CachingLayer):
    """h_t = f(I x_t + R h_(t-1) + b + S c_t) with a condition c_t (equations of sections 3.2 and 4.3); h_(-1) = 0."""

    def __init__(self, width: int, activation: str, **kwargs):
        super().__init__(**kwargs)
        self.width, self.activation = width, keras.activations.get(activation)

    def build(self, input_shape):
        """Creates I and S, Glorot uniform, R, orthogonal, (D, D) each, and b (D,)."""
        shape = (self.width, self.width)
        self.input_kernel = self.add_weight(name="input_kernel", shape=shape)
        self.condition_kernel = self.add_weight(name="condition_kernel", shape=shape)
        self.recurrent_kernel = self.add_weight(name="recurrent_kernel", shape=shape, initializer="orthogonal")
        self.bias = self.add_weight(name="bias", shape=(self.width,), initializer="zeros")

    def call(self, x, condition, cache: StepCache | None = None):
        """Returns the states (B, T, D) of words (B, T, D) and conditions (B, T or 1, D); with a cache, all (N, D)."""
        given = ops.matmul(x, self.input_kernel) + self.bias + ops.matmul(condition, self.condition_kernel)
        kernel = ops.cast(self.recurrent_kernel, given.dtype)

        def step(state_ND, given):
            return self.activation(given[0] + ops.matmul(state_ND, kernel))

        if cache is not None:
            state_ND = step(cache.state(self.path), (given,))
            cache.set_state(self.path, state_ND)
            return state_ND
        _, states_TBD = scan(step, ops.zeros_like(given[:, 0]), (ops.transpose(given, (1, 0, 2)),))
        return ops.transpose(states_TBD, (1, 0, 2))

    def empty_entry(self, rows, beams: int, length) -> Tensor:
        """Returns the state before the first position, (N, D) zeros."""
        return ops.zeros((rows, self.width), self.compute_dtype)


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

    def read_source(self, features: Features, seed=None) -> tuple[Tensor, Tensor]:
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

    def encode(self, features: Features, seed=None):
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

    def encode(self, features: Features, seed=None):
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
