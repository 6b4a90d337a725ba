"""Sequences of real vectors, as inputs and as targets.

Legend: B batch, T length, C channels of a vector, D width.
"""

from keras import ops

from t2t.features import FeatureKind
from t2t.layers.modalities.base import Bottom, Top
from t2t.registry import register_modality


def data_keep(x_BTC):
    """Returns (B, T) bool, False after the last vector that is not all zeros: where padding begins."""
    is_data_BT = ops.any(ops.not_equal(x_BTC, 0), axis=-1)
    return ops.arange(ops.shape(x_BTC)[1])[None, :] < _ends(is_data_BT)[:, None]


def _ends(is_data_BT):
    """Returns (B,) int32, the number of positions up to the last True."""
    places_T = ops.arange(1, ops.shape(is_data_BT)[1] + 1, dtype="int32")
    return ops.max(ops.where(is_data_BT, places_T, 0), axis=1, initial=0)


@register_modality
class RealVectors(Bottom):
    """Real vectors: a dense layer. Zero vectors at the end of a sequence are padding."""

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
        return data_keep(x_BTC)


@register_modality
class RealValues(Top):
    """Real vectors: the mean of a normal distribution of variance 1, whose negative log-likelihood is the loss."""

    kinds = frozenset({FeatureKind.REAL})
    part = "real_values"

    def build(self, input_shape=None):
        """Creates the kernel (D, C) and the bias (C,)."""
        (channels,) = self.spec.shape
        self.kernel = self.add_weight(name="kernel", shape=(self.width, channels), initializer="glorot_uniform")
        self.bias = self.add_weight(name="bias", shape=(channels,), initializer="zeros")

    def call(self, hidden):
        """Returns (..., C) float32, the predicted vectors."""
        kernel_DC = ops.cast(ops.convert_to_tensor(self.kernel), hidden.dtype)
        return ops.cast(ops.matmul(hidden, kernel_DC), "float32") + ops.cast(self.bias, "float32")

    def weights_of(self, targets):
        """Returns (B, T) float32: 1.0 at data, 0.0 at padding."""
        return ops.cast(data_keep(targets), "float32")

    def loss_sum(self, hidden, targets):
        """Returns half of the squared error (the part of the likelihood that can be learnt) and the vectors' number."""
        squares_BT = ops.sum(ops.square(self(hidden) - ops.cast(targets, "float32")), axis=-1)
        weights_BT = self.weights_of(targets)
        return 0.5 * ops.sum(squares_BT * weights_BT), ops.sum(weights_BT)
