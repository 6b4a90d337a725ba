"""Costs that layers add to the loss, e.g. for unevenly used experts; gathered while a body runs.

Legend: B batch, T length.
"""

import contextvars
import dataclasses
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from keras import ops

from t2t.layers.contexts import held
from t2t.layers.masks import examples_keep


@dataclasses.dataclass
class Costs:
    """The costs that layers have added; each is () float32, in nats."""

    per_target: list[Any] = dataclasses.field(default_factory=list)
    """Added to the mean loss per target; each is of the batch as a whole."""
    summed: list[Any] = dataclasses.field(default_factory=list)
    """Added to the summed loss; each is a sum over rows, in which padding does not count."""
    features: Mapping[str, Any] | None = None
    """The batch, of which rows of padding do not count, see `counted`; None = all rows are examples."""


_gathered: contextvars.ContextVar[Costs | None] = contextvars.ContextVar("gathered", default=None)


def gathered_costs(features: Mapping[str, Any] | None = None) -> AbstractContextManager[Costs]:
    """Returns a context whose value is the `Costs` that `add_cost` and `add_summed_cost` add to within it.

    `features` is the batch, see `Costs`.
    """
    return held(_gathered, Costs(features=features))


def counted(keep_BT: Any) -> Any:
    """Returns the positions of `keep_BT` (B, T) bool whose costs count: those of examples.

    A row that pads a batch keeps a position of its inputs if these are not text, as an example of silence does.
    """
    costs = _gathered.get()
    if costs is None or costs.features is None:
        return keep_BT
    return ops.logical_and(keep_BT, examples_keep(costs.features)[:, None])


def add_cost(cost: Any) -> None:
    """Adds a cost per target, see `Costs`; does nothing outside of `gathered_costs`, as in decoding."""
    costs = _gathered.get()
    if costs is not None:
        costs.per_target.append(cost)


def add_summed_cost(cost: Any) -> None:
    """Adds a summed cost, see `Costs`; does nothing outside of `gathered_costs`, as in decoding."""
    costs = _gathered.get()
    if costs is not None:
        costs.summed.append(cost)


class Costed(NamedTuple):
    """Hidden states of a model with a cost besides the loss of its predictions, e.g. of saturated gates."""

    hidden: Any
    """The input of `SequenceModel.logits`."""
    cost: Any = 0.0
    """() float32, nats, added to the summed loss: a sum over rows in which padding does not count."""
    cost_per_target: Any = 0.0
    """() float32, nats per target, added to the mean loss: of the batch as a whole, not a sum over rows.

    If an update has several parts (replicas, micro-batches), their costs are averaged, weighted by their targets.
    """


def without_costs(hidden: Any) -> Any:
    """Returns the hidden states from the result of `SequenceModel.body`."""
    return hidden.hidden if isinstance(hidden, Costed) else hidden


def with_costs(hidden: Any, costs: Costs) -> Any:
    """Returns hidden states as `Costed` if layers have added costs, else unchanged."""
    if not costs.summed and not costs.per_target:
        return hidden
    return Costed(hidden, sum(costs.summed, start=0.0), sum(costs.per_target, start=0.0))
