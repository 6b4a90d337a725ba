"""Values that are set within a block of code, for the thread that runs it."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

Value = TypeVar("Value")


@contextlib.contextmanager
def held(variable: ContextVar[Any], value: Value) -> Iterator[Value]:
    """Sets a variable within the block, and restores its previous value afterwards."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)
