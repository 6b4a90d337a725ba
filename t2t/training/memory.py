"""How much memory an update needs, estimated before anything runs."""

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
    """All outputs of the forward pass of the largest batch: more than the backward pass keeps of them."""

    @property
    def total(self) -> int:
        """All of it."""
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
    """Returns the estimate for a model and its largest batch, of which only shapes and dtypes matter.

    The optimizer keeps `slots` variables as large as the weights, the moving average included; `accumulates` says
    whether gradients are summed over micro-batches; `adapters` are what is trained in place of the weights.
    """
    added = adapters.variables if adapters else []
    trained_variables = added or model.trainable_variables
    weights, trained = (
        sum(math.prod(v.shape) * 4 for v in some) for some in ([*model.variables, *added], trained_variables)
    )
    gradients = trained * (3 if accumulates else 2)  # of each weight, and as the vector that is reduced
    return MemoryEstimate(weights, trained * slots, gradients, training_engine().forward_bytes(model, batch))
