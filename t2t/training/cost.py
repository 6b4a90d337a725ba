"""Cost of training in floating-point operations of matrix products, counted before anything runs.

The backward pass takes two products of the size of each of the forward pass. What is not a product (norms, softmax,
dropout, the optimizer) is left out: it is a few percent.
"""

from typing import NamedTuple

import numpy as np

from t2t.models.base import SequenceModel
from t2t.training.engine_choice import training_engine


class UpdateCost(NamedTuple):
    """What the forward and backward pass of one batch take."""

    flops: int
    """Operations of the products outside loops."""
    loops: bool
    """Whether there are products in loops, see `ForwardCost`."""


def update_cost(model: SequenceModel, batch: dict[str, np.ndarray]) -> UpdateCost:
    """Returns the cost of one batch; only its shapes matter."""
    forward = training_engine().forward_cost(model, batch)
    return UpdateCost(3 * forward.flops, forward.loops)  # forward once, backward twice
