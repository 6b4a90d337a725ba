"""Sequences of real vectors, as inputs and as targets.

Legend: B batch, T length, C channels of a vector, D width.
"""

from keras import ops

from t2t.layers.modalities.base import Bottom, DenseTop
from t2t.registry import register_modality
from t2t.specs.features import FeatureKind


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
