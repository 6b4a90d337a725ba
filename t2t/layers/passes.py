"""Layers that run several times in one forward pass, as in a recurrence over depth.

Their weights are the same in each pass. Cache entries and recorded attention weights, which are stored by the path of a
layer, have a separate name for each pass.
"""

import contextvars
from contextlib import AbstractContextManager

from t2t.layers.contexts import held

_pass: contextvars.ContextVar[int | None] = contextvars.ContextVar("pass", default=None)


def layer_pass(number: int) -> AbstractContextManager[int]:
    """Returns a context in which layers run as pass `number`, from 0."""
    return held(_pass, number)


def entry_name(path: str) -> str:
    """Returns the name under which a layer's values of the current pass are stored; outside of passes, its path."""
    number = _pass.get()
    return path if number is None else _name_of_pass(path, number)


def names_of_passes(path: str, passes: int) -> list[str]:
    """Returns the names of all passes of a layer, in their order."""
    return [_name_of_pass(path, number) for number in range(passes)]


def _name_of_pass(path: str, number: int) -> str:
    # The last part stays last: it identifies the kind of attention.
    parent, _, name = path.rpartition("/")
    return f"{parent}/step_{number}/{name}"
