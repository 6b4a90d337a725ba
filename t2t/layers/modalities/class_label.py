"""Classes as targets: one dense layer on one vector an example.

Legend: B batch, D width, C classes.
"""

from keras import ops

from t2t.features import FeatureKind
from t2t.layers.modalities.base import Top
from t2t.losses import class_cross_entropy
from t2t.registry import register_modality


@register_modality
class ClassLabel(Top):
    """A class: a dense layer on one vector an example."""

    kinds = frozenset({FeatureKind.LABEL})
    part = "class_label"

    def build(self, input_shape=None):
        """Creates the kernel (D, C) and the bias (C,)."""
        classes = self.spec.vocab_size
        self.kernel = self.add_weight(name="kernel", shape=(self.width, classes), initializer="glorot_uniform")
        self.bias = self.add_weight(name="bias", shape=(classes,), initializer="zeros")

    def call(self, hidden):
        """Returns (..., C) float32 for hidden states (..., D)."""
        kernel_DC = ops.cast(ops.convert_to_tensor(self.kernel), hidden.dtype)
        return ops.cast(ops.matmul(hidden, kernel_DC), "float32") + ops.cast(self.bias, "float32")

    def weights_of(self, targets):
        """Returns ones, float32: an example always has a class."""
        return ops.ones(ops.shape(targets), "float32")

    def loss_sum(self, hidden, targets):
        """Returns label-smoothed cross-entropy summed over the examples (B, D) and (B,), and their number."""
        losses_B = class_cross_entropy(self(hidden), targets, self.label_smoothing, self.label_smoothing_kind)
        return ops.sum(losses_B), ops.sum(self.weights_of(targets))
