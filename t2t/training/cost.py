"""Cost of training in floating-point operations of matrix products, counted before anything runs.

For each product of the forward pass, the backward pass has two of the same size. All else (norms, softmax, dropout,
the optimizer) is left out: it is a few percent.
"""

from typing import NamedTuple

import numpy as np

from t2t.models.base import SequenceModel
from t2t.training.engine_choice import training_engine


class UpdateCost(NamedTuple):
    """Cost of the forward and backward pass of one batch."""

    flops: int
    """Floating-point operations of the products outside loops."""
    loops: bool
    """Whether there are products in loops, see `ForwardCost`."""


def update_cost(model: SequenceModel, batch: dict[str, np.ndarray]) -> UpdateCost:
    """Returns the cost of one batch; only its shapes matter."""
    forward = training_engine().forward_cost(model, batch)
    return UpdateCost(3 * forward.flops, forward.loops)  # forward once, backward twice
