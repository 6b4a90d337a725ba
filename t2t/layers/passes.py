"""Layers that run several times in one forward pass, as in a recurrence over depth.

Their weights are the same in each pass. What is kept by the path of a layer, its cache and its attention weights, is
kept for each pass under a name of its own.
"""

import contextvars
from contextlib import AbstractContextManager

from t2t.layers.contexts import held

_pass: contextvars.ContextVar[int | None] = contextvars.ContextVar("pass", default=None)


def layer_pass(number: int) -> AbstractContextManager[int]:
    """Marks what runs within the context as pass `number`, from 0, of its layers."""
    return held(_pass, number)


def entry_name(path: str) -> str:
    """Returns the name under which a layer's values of the current pass are kept; its path outside of passes."""
    number = _pass.get()
    return path if number is None else _name_of_pass(path, number)


def names_of_passes(path: str, passes: int) -> list[str]:
    """Returns the names of all passes of a layer, in their order."""
    return [_name_of_pass(path, number) for number in range(passes)]


def _name_of_pass(path: str, number: int) -> str:
    # The last part stays the last: it tells the kind of an attention.
    parent, _, name = path.rpartition("/")
    return f"{parent}/step_{number}/{name}"
