"""Costs of layers beside the loss, e.g. of unevenly used experts, gathered while a model's body runs."""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

_gathered: contextvars.ContextVar[list[Any] | None] = contextvars.ContextVar("gathered", default=None)


@contextlib.contextmanager
def gathered_costs() -> Iterator[list[Any]]:
    """Returns a context that gives the list to which `add_cost` adds within it."""
    costs: list[Any] = []
    token = _gathered.set(costs)
    try:
        yield costs
    finally:
        _gathered.reset(token)


def add_cost(cost: Any) -> None:
    """Adds a cost, () float32 nats, to the mean loss of a target; does nothing where nobody gathers, as in decoding."""
    costs = _gathered.get()
    if costs is not None:
        costs.append(cost)
