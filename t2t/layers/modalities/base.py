"""Modalities, which turn a feature into vectors (bottoms) or predict one (tops): their base classes; tokens, classes.

The embedding of tokens and their output layer may share a table: section 3.4.

Legend: B batch, T length, P positions, C channels, classes or vocabulary, D width, V vocabulary.
"""

import functools
from typing import ClassVar

import keras
from keras import ops

from t2t.errors import UserError
from t2t.layers.dropout import Dropout, random_keep
from t2t.layers.losses import (
    TargetScores,
    class_cross_entropy,
    linear_cross_entropy,
    most_probable,
    score_by_blocks,
    score_logits,
    token_weights,
)
from t2t.layers.masks import padding_keep
from t2t.registry import register_modality
from t2t.registry.overrides import check_overrides
from t2t.specs import EOS_ID
from t2t.specs.features import FeatureKind, FeatureSpec


class Bottom(keras.layers.Layer):
    """Turns a feature into vectors of D channels."""

    kinds: ClassVar[frozenset[FeatureKind]] = frozenset()
    """Kinds of features that it reads."""

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        check_overrides(cls)

    def __init__(self, spec: FeatureSpec, width: int, **kwargs):
        # No autocasting: audio is read unchanged, and its energies are computed in float32.
        super().__init__(autocast=False, **kwargs)
        self.spec, self.width = spec, width

    def call(self, feature, seed=None):
        """Returns the vectors of a batch of the feature, (B, P, D).

        Args:
            feature: its arrays, as `t2t.data.reading.batch_arrays` gives them.
            seed: (2,) integer seed of dropout; None = none.
        """
        raise NotImplementedError

    def keep(self, feature):
        """Returns (B, P) bool, True where the vectors of `call` hold data."""
        raise NotImplementedError

    def positions_of(self, length: int) -> int:
        """Returns the number of vectors of an example with `length` items: ids, samples, frames or rows of pixels."""
        return length


class Top(keras.layers.Layer):
    """Turns hidden states of D channels into predictions of a feature, and computes their loss.

    Label smoothing and its kind are those of `t2t.layers.losses.class_cross_entropy`.
    """

    kinds: ClassVar[frozenset[FeatureKind]] = frozenset()
    """Kinds of features that it predicts."""
    part: ClassVar[str] = "top"
    """Its name in the paths of its weights."""

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        check_overrides(cls)

    def __init__(
        self, spec: FeatureSpec, width: int, label_smoothing: float = 0.0, label_smoothing_kind: str = "all", **kwargs
    ):
        # No autocasting: it would convert the float32 weights of `decode_weights` to 16 bits in every call.
        super().__init__(name=kwargs.pop("name", self.part), autocast=False, **kwargs)
        self.spec, self.width = spec, width
        self.label_smoothing, self.label_smoothing_kind = label_smoothing, label_smoothing_kind

    def decode_weights(self):
        """Returns the weights in the form used for many calls in a row; () if `call` needs no preparation."""
        return ()

    def call(self, hidden, decode_weights=None):
        """Returns (..., C) float32 logits for hidden states (..., D); `decode_weights` is the result of that method."""
        raise NotImplementedError

    def score_targets(self, hidden, targets) -> TargetScores:
        """Returns the scores of targets (...) int32 under hidden states (..., D); meaningless at padding."""
        return score_logits(self(hidden), targets)

    def most_probable(self, hidden):
        """Returns the most probable token of each hidden state (..., D), never PAD_ID; (...) int32."""
        return most_probable(hidden, functools.partial(self, decode_weights=self.decode_weights()))

    def loss_sum(self, hidden, targets):
        """Returns the training loss in nats, summed over all predictions, and their number, both () float32.

        Padding counts in neither. `hidden` is (..., D), `targets` the feature.
        """
        raise NotImplementedError

    def weighted_nll(self, hidden, targets, weights):
        """Returns the negative log-likelihood of targets times their weights, summed: () float32, nats.

        Without label smoothing. `hidden` is (..., D), `targets` (...) int32; `weights` (...) float32 have no gradient.
        """
        return ops.sum(class_cross_entropy(self(hidden), targets, 0.0) * ops.stop_gradient(weights))


class DenseTop(Top):
    """One dense layer with a bias on the hidden states, for classes and real vectors."""

    @property
    def outputs(self) -> int:
        """C: the number of classes, or the channels of a vector."""
        return self.spec.vocab_size or self.spec.shape[0]

    def build(self, input_shape=None):
        """Creates the kernel (D, C) and the bias (C,)."""
        self.kernel = self.add_weight(name="kernel", shape=(self.width, self.outputs), initializer="glorot_uniform")
        self.bias = self.add_weight(name="bias", shape=(self.outputs,), initializer="zeros")

    def call(self, hidden, decode_weights=None):
        """Returns (..., C) float32 for hidden states (..., D)."""
        kernel_DC = ops.cast(ops.cast(self.kernel, self.compute_dtype), "float32")
        return ops.matmul(ops.cast(hidden, "float32"), kernel_DC) + ops.cast(self.bias, "float32")


class SymbolDropout(Dropout):
    """Zeroes whole vectors, a fraction `rate` of them, and leaves the others unchanged."""

    def call(self, x, seed=None):
        """Returns `x` (..., D) with dropout under `seed`, see the base class."""
        if not self.acts(seed):
            return x
        keep = random_keep(ops.shape(x)[:-1], self.rate, self.own_seed(seed))
        return x * ops.cast(keep, x.dtype)[..., None]


def _add_table(layer: keras.layers.Layer):
    # Standard deviation D^-1/2: vectors scaled by sqrt(D), and logits of normalised hidden states, have unit variance.
    normal = keras.initializers.RandomNormal(stddev=layer.width**-0.5)
    return layer.add_weight(name="table", shape=(layer.spec.vocab_size, layer.width), initializer=normal)


@register_modality
class TokenEmbedding(Bottom):
    """Tokens: a table of vectors, read scaled by sqrt(D).

    In training, a fraction `symbol_dropout` of the tokens has zero vectors, and the others are not scaled up for it.
    `target_start` chooses the vector before the first target: `zero`, zeros; `pad`, that of padding; or `id`, that of
    `target_start_id`.
    """

    kinds = frozenset({FeatureKind.TOKENS})

    def __init__(
        self,
        spec,
        width: int,
        symbol_dropout: float = 0.0,
        target_start: str = "zero",
        target_start_id: int = EOS_ID,
        **kwargs,
    ):
        super().__init__(spec, width, **kwargs)
        if target_start == "id" and target_start_id >= spec.vocab_size:
            raise UserError(
                f"the vocabulary has ids 0 to {spec.vocab_size - 1}",
                "name one",
                hparam="target_start_id",
                value=target_start_id,
            )
        self.target_start, self.target_start_id = target_start, target_start_id
        # One for each side: in a shared table, one layer would drop the same positions on both.
        self.source_dropout, self.target_dropout = (
            SymbolDropout(symbol_dropout, dtype=self.dtype_policy, name=f"{side}_symbol_dropout")
            for side in ("source", "target")
        )

    def build(self, input_shape=None):
        """Creates the table (V, D)."""
        self.table = _add_table(self)
        self.source_dropout.build()
        self.target_dropout.build()

    def call(self, ids_BT, seed=None):
        """Returns (B, T, D): sqrt(D) times the vectors of `ids_BT` (B, T) int32."""
        return self.source_dropout(self._vectors(ids_BT), seed=seed)

    def _vectors(self, ids):
        return ops.cast(ops.take(self.table, ids, axis=0), self.compute_dtype) * self.width**0.5

    def keep(self, ids_BT):
        """Returns (B, T) bool, False at padding."""
        return padding_keep(ids_BT)

    def before(self, ids, seed=None):
        """Returns (..., D) of the token before each position, (...) int32; PAD_ID means that there is none.

        The vector is then the one that `target_start` chooses.
        """
        if self.target_start == "id":
            ids = ops.where(padding_keep(ids), ids, self.target_start_id)
        x = self._vectors(ids)
        if self.target_start == "zero":
            x = x * ops.cast(padding_keep(ids), x.dtype)[..., None]
        return self.target_dropout(x, seed=seed)


@register_modality
class TokenSoftmax(Top):
    """Tokens: products with a table of vectors, unscaled; its own, or that of `embedding`.

    With `has_bias` each token has a bias. It is treated as another column of the table, with a 1 appended to hidden
    states, so that the loss and its gradient, scores and selected tokens need no other formulas.
    """

    kinds = frozenset({FeatureKind.TOKENS})
    part = "output_embedding"

    def __init__(self, spec, width: int, embedding: TokenEmbedding | None = None, has_bias: bool = False, **kwargs):
        super().__init__(spec, width, **kwargs)
        self.embedding, self.has_bias = embedding, has_bias

    def build(self, input_shape=None):
        """Creates the table (V, D) unless it is shared, and the bias (V,) with `has_bias`."""
        self.own_table = _add_table(self) if self.embedding is None else None
        shape = (self.spec.vocab_size,)
        self.bias = self.add_weight(name="bias", shape=shape, initializer="zeros") if self.has_bias else None

    def table(self):
        """Returns the table, (V, D) float32."""
        return ops.convert_to_tensor(self.own_table if self.embedding is None else self.embedding.table)

    def kernel(self):
        """Returns the matrix for `inputs`, float32: the table (V, D), or table and bias side by side, (V, D + 1)."""
        if self.bias is None:
            return self.table()
        return ops.concatenate([self.table(), ops.convert_to_tensor(self.bias)[:, None]], axis=-1)

    def inputs(self, hidden):
        """Returns hidden states (..., D), with a 1 appended to each if there is a bias."""
        if self.bias is None:
            return hidden
        return ops.concatenate([hidden, ops.ones_like(hidden[..., :1])], axis=-1)

    def decode_weights(self, token_ids=None):
        """Returns the kernel for `call`, transposed: products of few rows are then up to three times as fast.

        It is (D, V) or (D + 1, V) float32, rounded to the layer's compute type, so that logits are those of the weights
        used in training. With `token_ids` (V',) int32, it has only their columns, (D, V').
        """
        kernel = self.kernel() if token_ids is None else ops.take(self.kernel(), token_ids, axis=0)
        return ops.transpose(ops.cast(ops.cast(kernel, self.compute_dtype), "float32"))

    def call(self, hidden, decode_weights=None):
        """Returns (..., V) float32."""
        kernel_DV = self.decode_weights() if decode_weights is None else decode_weights
        return ops.matmul(ops.cast(self.inputs(hidden), "float32"), kernel_DV)

    def score_targets(self, hidden, targets) -> TargetScores:
        """Returns the scores of tokens (...) int32 under hidden states (..., D)."""
        return score_by_blocks(self.inputs(hidden), self.decode_weights(), targets)

    def loss_sum(self, hidden, targets):
        """Returns label-smoothed cross-entropy (section 5.4) summed over tokens, and their number."""
        smoothing = (self.label_smoothing, self.label_smoothing_kind)
        loss = linear_cross_entropy(self.inputs(hidden), self.kernel(), targets, *smoothing)
        return loss, ops.sum(token_weights(targets))

    def weighted_nll(self, hidden, targets, weights):
        """Returns the negative log-likelihood of tokens times their weights, summed; see the base class."""
        return linear_cross_entropy(self.inputs(hidden), self.kernel(), targets, 0.0, weights=weights)


@register_modality
class ClassLabel(DenseTop):
    """A class: a dense layer on one vector an example."""

    kinds = frozenset({FeatureKind.LABEL})
    part = "class_label"

    def loss_sum(self, hidden, targets):
        """Returns label-smoothed cross-entropy summed over the examples (B, D) and (B,), and their number."""
        losses_B = class_cross_entropy(self(hidden), targets, self.label_smoothing, self.label_smoothing_kind)
        return ops.sum(losses_B), ops.sum(ops.ones_like(losses_B))


def data_keep(x_BTC):
    """Returns (B, T) bool, False after the last vector that is not all zeros: where padding begins."""
    is_data_BT = ops.any(ops.not_equal(x_BTC, 0), axis=-1)
    places_T = ops.arange(1, ops.shape(x_BTC)[1] + 1, dtype="int32")
    lengths_B = ops.max(ops.where(is_data_BT, places_T, 0), axis=1, initial=0)
    return places_T[None, :] <= lengths_B[:, None]


def input_keep(x_BTC):
    """Returns (B, T) bool as `data_keep`, but the first vector of each input is data, even if all are zeros.

    So something is read of every input, however wide its batch is.
    """
    is_first_T = ops.equal(ops.arange(ops.shape(x_BTC)[1]), 0)
    return ops.logical_or(data_keep(x_BTC), is_first_T[None, :])


@register_modality
class RealVectors(Bottom):
    """Real vectors: a dense layer. Zero vectors at the end of a sequence are padding, except the first."""

    kinds = frozenset({FeatureKind.REAL})

    def build(self, input_shape=None):
        """Creates the kernel (C, D) and the bias (D,)."""
        (channels,) = self.spec.shape
        self.kernel = self.add_weight(name="kernel", shape=(channels, self.width), initializer="glorot_uniform")
        self.bias = self.add_weight(name="bias", shape=(self.width,), initializer="zeros")

    def call(self, x_BTC, seed=None):
        """Returns (B, T, D) of vectors (B, T, C) float32."""
        x_BTC = ops.cast(x_BTC, self.compute_dtype)
        return ops.matmul(x_BTC, ops.cast(self.kernel, x_BTC.dtype)) + ops.cast(self.bias, x_BTC.dtype)

    def keep(self, x_BTC):
        """Returns (B, T) bool."""
        return input_keep(x_BTC)


@register_modality
class RealValues(DenseTop):
    """Real vectors: the mean of a normal distribution of variance 1, whose negative log-likelihood is the loss."""

    kinds = frozenset({FeatureKind.REAL})
    part = "real_values"

    def loss_sum(self, hidden, targets):
        """Returns half the squared error (the likelihood without its constant) and the number of vectors."""
        squares_BT = ops.sum(ops.square(self(hidden) - ops.cast(targets, "float32")), axis=-1)
        weights_BT = ops.cast(data_keep(targets), "float32")
        return 0.5 * ops.sum(squares_BT * weights_BT), ops.sum(weights_BT)
