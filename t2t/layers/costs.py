"""Costs of layers besides the loss, e.g. of unevenly used experts: gathered while a body runs, which returns them."""

import contextvars
import dataclasses
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from t2t.layers.contexts import held


@dataclasses.dataclass
class Costs:
    """What layers have added; each cost is () float32, in nats."""

    per_target: list[Any] = dataclasses.field(default_factory=list)
    """Added to the mean loss of a target: of a batch as a whole."""
    summed: list[Any] = dataclasses.field(default_factory=list)
    """Added to the summed loss: sums over rows, to which padding adds nothing."""


_gathered: contextvars.ContextVar[Costs | None] = contextvars.ContextVar("gathered", default=None)


def gathered_costs() -> AbstractContextManager[Costs]:
    """Returns a context that gives the costs to which `add_cost` and `add_summed_cost` add within it."""
    return held(_gathered, Costs())


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


class Costed(NamedTuple):
    """Hidden states of a model with a cost besides the loss of its predictions, e.g. of saturated gates."""

    hidden: Any
    """What `logits` takes."""
    cost: Any = 0.0
    """() float32, nats, added to the summed loss: a sum over rows to which padding adds nothing."""
    cost_per_target: Any = 0.0
    """() float32, nats a target, added to the mean loss: of a batch as a whole, not a sum over rows.

    An update in parts (replicas, micro-batches) has the mean of their costs, weighted by their targets.
    """


def without_costs(hidden: Any) -> Any:
    """Returns the hidden states of what `SequenceModel.body` returned."""
    return hidden.hidden if isinstance(hidden, Costed) else hidden


def with_costs(hidden: Any, costs: Costs) -> Any:
    """Returns hidden states as `Costed` where layers have added costs, else as they are."""
    if not costs.summed and not costs.per_target:
        return hidden
    return Costed(hidden, sum(costs.summed, start=0.0), sum(costs.per_target, start=0.0))
