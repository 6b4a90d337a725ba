"""Token embeddings, and the output layer, which may share their table: section 3.4.

Legend: B batch, T length, D width, V vocabulary.
"""

import keras
from keras import ops

from t2t.errors import UserError
from t2t.layers.dropout import Dropout, random_keep
from t2t.layers.losses import TargetScores, linear_cross_entropy, score_by_blocks, token_weights
from t2t.layers.masks import padding_keep
from t2t.layers.modalities.base import Bottom, Top
from t2t.registry import register_modality
from t2t.specs.constants import EOS_ID
from t2t.specs.features import FeatureKind


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
                f"hparam target_start_id={target_start_id}: the vocabulary has ids 0 to {spec.vocab_size - 1}; name one"
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
