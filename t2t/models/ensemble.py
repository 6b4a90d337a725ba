"""Several models that predict each token together.

The ensemble's distribution is the average of its members': of their probabilities, (p_1 + ... + p_M) / M, or of their
log-probabilities, (p_1 ... p_M)^(1/M) divided by its sum over the vocabulary.

Legend: M models, B sentences, S source length, T target length, N rows decoded together, V vocabulary.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from keras import ops

from t2t.layers.losses import TargetScores, score_logits, token_weights
from t2t.layers.tensors import Features, Size, Tensor
from t2t.models.base import SequenceModel
from t2t.specs import TARGETS
from t2t.specs.features import FeatureKind


def mean_probability(log_probs: Sequence[Tensor]) -> Tensor:
    """Returns the logarithm of the mean probability, from the log-probabilities of each model."""
    return ops.logsumexp(ops.stack(log_probs), axis=0) - math.log(len(log_probs))


def mean_log_probability(log_probs: Sequence[Tensor]) -> Tensor:
    """Returns the mean of log-probabilities: logits of the normalised geometric mean."""
    return ops.mean(ops.stack(log_probs), axis=0)


AVERAGES: dict[str, Callable[[Sequence[Tensor]], Tensor]] = {
    "probabilities": mean_probability,
    "log_probabilities": mean_log_probability,
}
"""Name -> function of M tensors (..., V) of log-probabilities that returns logits (..., V)."""


Encoded = tuple[object, ...] | None
"""The encoded source of every member; None without inputs."""
Caches = tuple[object, ...]
"""The cache of every member."""


class Ensemble:
    """Models of the same problem and vocabularies, with the interface of `SequenceModel` for search and scoring.

    Args:
        members: M models of any classes, either all autoregressive or none of them.
        average: one of AVERAGES.
    """

    def __init__(self, members: Sequence[SequenceModel], average: str = "probabilities"):
        self.members, self.average = tuple(members), average
        first = self.members[0]
        self.spec, self.hparams, self.autoregressive = first.spec, first.hparams, first.autoregressive
        self.source_embedding = first.source_embedding
        self.selects_tokens = all(member.selects_tokens for member in self.members)

    @property
    def variables(self) -> list[Tensor]:
        """The variables of all members."""
        return [variable for member in self.members for variable in member.variables]

    @property
    def longest_sequence(self) -> int | None:
        """Longest sequence that every member supports, in ids; None for any length."""
        return min((m.longest_sequence for m in self.members if m.longest_sequence is not None), default=None)

    def __call__(self, features: Features) -> Tensor:
        """Returns the logits of every target position, (B, T, V) float32; see `SequenceModel.call`."""
        return self._average([member(features) for member in self.members])

    def score_targets(self, features: Features) -> TargetScores:
        """Returns the scores of the targets; see `SequenceModel.score_targets`. All logits are held at once."""
        targets = features[TARGETS]
        scores = score_logits(self(features), targets)
        if self.spec.targets.kind != FeatureKind.TOKENS:
            return scores
        return scores._replace(log_probs=scores.log_probs * token_weights(targets))

    def source_keep(self, inputs) -> Tensor:
        """Returns the inputs that attention of any member may read, (B, S) bool."""
        return ops.any(ops.stack([member.source_keep(inputs) for member in self.members]), axis=0)

    def encode(self, features: Features) -> tuple[object, ...]:
        """Returns the encoded source of every member."""
        return tuple(member.encode(features) for member in self.members)

    def init_cache(self, encoded: Encoded, rows: Size, length: Size | None, beams: int = 1) -> Caches:
        """Returns the initial states of every member; see `SequenceModel.init_cache`."""
        return tuple(
            member.init_cache(own, rows, length, beams)
            for member, own in zip(self.members, self._parts(encoded), strict=True)
        )

    def prepare_decode(
        self, encoded: Encoded, token_ids: Tensor | None = None, allowed: Tensor | None = None, weights: Any = None
    ) -> Caches:
        """Prepares decoding; see `SequenceModel.prepare_decode`."""
        return tuple(
            member.prepare_decode(own, token_ids, allowed, own_weights)
            for member, own, own_weights in zip(self.members, self._parts(encoded), self._parts(weights), strict=True)
        )

    def step_weights(self, token_ids: Tensor | None = None) -> tuple[Any, ...]:
        """Returns the weights that steps of every member read; see `SequenceModel.step_weights`."""
        return tuple(member.step_weights(token_ids) for member in self.members)

    def decode_step(self, ids_N, position, cache: Caches, encoded: Encoded) -> tuple[Tensor, Caches]:
        """Returns the logits (N, V) float32 of the next id, and the new caches; see `SequenceModel.decode_step`."""
        steps = [
            member.decode_step(ids_N, position, own_cache, own)
            for member, own_cache, own in zip(self.members, cache, self._parts(encoded), strict=True)
        ]
        return self._average([logits for logits, _ in steps]), tuple(new for _, new in steps)

    def reorder_cache(self, cache: Caches, beams: Tensor) -> Caches:
        """Returns the caches with their rows reordered; see `SequenceModel.reorder_cache`."""
        return tuple(member.reorder_cache(own, beams) for member, own in zip(self.members, cache, strict=True))

    def _average(self, logits: Sequence[Tensor]) -> Tensor:
        return AVERAGES[self.average]([ops.log_softmax(own, axis=-1) for own in logits])

    def _parts(self, values: Any) -> Sequence[object]:
        """Returns each member's part of some values, None where there are none."""
        return [None] * len(self.members) if values is None else values
