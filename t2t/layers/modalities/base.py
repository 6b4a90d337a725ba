"""What the two ends of a model offer to its body: a bottom gives vectors of a feature, a top predicts one.

Legend: B batch, P positions, D width, C classes or vocabulary.
"""

from typing import ClassVar

import keras

from t2t.layers.target_scores import TargetScores, score_logits
from t2t.specs.features import FeatureKind, FeatureSpec


class Bottom(keras.layers.Layer):
    """Turns a feature into vectors.

    Args:
        spec: of the feature.
        width: D.
    """

    kinds: ClassVar[frozenset[FeatureKind]] = frozenset()
    """Kinds of features that it takes."""

    def __init__(self, spec: FeatureSpec, width: int, **kwargs):
        # Without autocasting: sound is read as it is, and its energies are computed in float32.
        super().__init__(autocast=False, **kwargs)
        self.spec, self.width = spec, width

    def call(self, feature, seed=None):
        """Returns (B, P, D) of a batch of the feature.

        Args:
            feature: its arrays, as `t2t.data.pipeline` gives them.
            seed: (2,) integer seed of dropout; None = none.
        """
        raise NotImplementedError

    def keep(self, feature):
        """Returns (B, P) bool, True where the vectors of `call` hold data."""
        raise NotImplementedError

    def positions_of(self, length: int) -> int:
        """Returns how many vectors there are of an example of so many items: ids, samples, rows of pixels."""
        return length


class Top(keras.layers.Layer):
    """Turns hidden states into predictions of a feature, and says how wrong they are.

    Args:
        spec: of the feature.
        width: D.
        label_smoothing: mass e that the target distribution spreads, see `t2t.layers.losses.class_cross_entropy`.
        label_smoothing_kind: who gets it.
    """

    kinds: ClassVar[frozenset[FeatureKind]] = frozenset()
    """Kinds of features that it predicts."""
    part: ClassVar[str] = "top"
    """Its part of the paths of its weights."""

    def __init__(
        self, spec: FeatureSpec, width: int, label_smoothing: float = 0.0, label_smoothing_kind: str = "all", **kwargs
    ):
        # Without autocasting, which would make the float32 weights of `decode_weights` 16-bit ones at every call.
        super().__init__(name=kwargs.pop("name", self.part), autocast=False, **kwargs)
        self.spec, self.width = spec, width
        self.label_smoothing, self.label_smoothing_kind = label_smoothing, label_smoothing_kind

    def decode_weights(self):
        """Returns the weights as many calls in a row want them, or None where `call` takes its own."""
        return None

    def call(self, hidden, decode_weights=None):
        """Returns (..., C) float32 logits for hidden states (..., D); `decode_weights` comes from the method."""
        raise NotImplementedError

    def score_targets(self, hidden, targets) -> TargetScores:
        """Returns how probable given targets are; what it says of padding has no meaning.

        Args:
            hidden: (..., D).
            targets: the feature, (...) int32.
        """
        return score_logits(self(hidden), targets)

    def loss_sum(self, hidden, targets):
        """Returns the training loss summed over all that is predicted, in nats, and how much that is.

        Args:
            hidden: (..., D).
            targets: the feature.

        Returns:
            Two float32 scalars; padding counts nothing in either.
        """
        raise NotImplementedError
