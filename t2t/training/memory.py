"""Estimates the memory of an update before anything runs."""

import dataclasses
import math

import numpy as np

from t2t.layers.adapters import Adapters
from t2t.models.base import SequenceModel
from t2t.training.engine_choice import training_engine


@dataclasses.dataclass(frozen=True)
class MemoryEstimate:
    """Bytes on each replica."""

    weights: int
    optimizer: int
    gradients: int
    activations: int
    """All intermediate tensors of the forward pass of the largest batch; the backward pass keeps fewer."""

    @property
    def total(self) -> int:
        """Sum of the parts."""
        return self.weights + self.optimizer + self.gradients + self.activations

    def __str__(self) -> str:
        listed = ", ".join(f"{name} {size / 2**20:,.0f} MiB" for name, size in dataclasses.asdict(self).items())
        return f"about {self.total / 2**20:,.0f} MiB on each replica ({listed})"


def estimate(
    model: SequenceModel,
    batch: dict[str, np.ndarray],
    slots: int,
    accumulates: bool,
    adapters: Adapters | None = None,
) -> MemoryEstimate:
    """Returns the estimate for a model and its largest batch; only the shapes and dtypes of the batch matter.

    The optimizer keeps `slots` variables as large as the weights, including the moving average. `accumulates` says
    whether gradients are summed over micro-batches. `adapters`, if any, are trained in place of the weights.
    """
    added = adapters.variables if adapters else []
    trained_variables = added or model.trainable_variables
    weights, trained = (
        sum(math.prod(v.shape) * 4 for v in some) for some in ([*model.variables, *added], trained_variables)
    )
    gradients = trained * (3 if accumulates else 2)  # by weight, as one vector to reduce, and summed
    return MemoryEstimate(weights, trained * slots, gradients, training_engine().forward_bytes(model, batch))
