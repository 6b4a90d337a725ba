"""Base classes of modalities: a bottom turns a feature into vectors, a top predicts one.

Legend: B batch, P positions, D width, C classes or vocabulary.
"""

import functools
from typing import ClassVar

import keras
from keras import ops

from t2t.layers.losses import TargetScores, class_cross_entropy, most_probable, score_logits
from t2t.registry.overrides import check_overrides
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
        """Returns the weights in the form used for many calls in a row; None if `call` needs no preparation."""
        return None

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
