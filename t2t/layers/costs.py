"""Costs of layers besides the loss, e.g. of unevenly used experts, gathered while a model's body runs."""

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator
from typing import Any


@dataclasses.dataclass
class Costs:
    """What layers have added; each cost is () float32, in nats."""

    per_target: list[Any] = dataclasses.field(default_factory=list)
    """Added to the mean loss of a target: of a batch as a whole."""
    summed: list[Any] = dataclasses.field(default_factory=list)
    """Added to the summed loss: sums over rows, to which padding adds nothing."""


_gathered: contextvars.ContextVar[Costs | None] = contextvars.ContextVar("gathered", default=None)


@contextlib.contextmanager
def gathered_costs() -> Iterator[Costs]:
    """Returns a context that gives the costs to which `add_cost` and `add_summed_cost` add within it."""
    costs = Costs()
    token = _gathered.set(costs)
    try:
        yield costs
    finally:
        _gathered.reset(token)


def add_cost(cost: Any) -> None:
    """Adds a cost per target, see `Costs`; does nothing where nobody gathers, as in decoding."""
    costs = _gathered.get()
    if costs is not None:
        costs.per_target.append(cost)


def add_summed_cost(cost: Any) -> None:
    """Adds a summed cost, see `Costs`; does nothing where nobody gathers, as in decoding."""
    costs = _gathered.get()
    if costs is not None:
        costs.summed.append(cost)
