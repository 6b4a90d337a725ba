"""What is known about a model before it is built. Loads no Keras."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from t2t.specs.features import FeatureKind, ProblemSpec

if TYPE_CHECKING:
    from t2t.models.base import SequenceModel


class ModelFacts(Protocol):
    """What decoding must know about a model before it runs; every `SequenceModel` has these attributes."""

    hparams: Any
    spec: ProblemSpec
    autoregressive: bool

    @property
    def longest_sequence(self) -> int | None:
        """See `SequenceModel.longest_sequence`."""


@dataclasses.dataclass
class LazyModel:
    """An autoregressive model that is built when first needed, since another engine may serve all requests."""

    hparams: Any
    spec: ProblemSpec
    longest_sequence: int | None
    weights: Mapping[str, np.ndarray]
    """By variable path."""
    build: Callable[[], "SequenceModel"]
    """Returns the model with these weights, the same one each time."""
    autoregressive: bool = True


def max_answers(model: ModelFacts) -> int:
    """Returns how many hypotheses per input a model has that predicts in one pass: its classes, else 1."""
    return model.spec.targets.vocab_size if model.spec.targets.kind == FeatureKind.LABEL else 1
