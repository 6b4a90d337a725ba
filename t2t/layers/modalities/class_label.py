"""Classes as targets: one dense layer on one vector an example.

Legend: B batch, D width.
"""

from keras import ops

from t2t.layers.losses import class_cross_entropy
from t2t.layers.modalities.base import DenseTop
from t2t.registry import register_modality
from t2t.specs.features import FeatureKind


@register_modality
class ClassLabel(DenseTop):
    """A class: a dense layer on one vector an example."""

    kinds = frozenset({FeatureKind.LABEL})
    part = "class_label"

    def loss_sum(self, hidden, targets):
        """Returns label-smoothed cross-entropy summed over the examples (B, D) and (B,), and their number."""
        losses_B = class_cross_entropy(self(hidden), targets, self.label_smoothing, self.label_smoothing_kind)
        return ops.sum(losses_B), ops.sum(ops.ones_like(losses_B))
