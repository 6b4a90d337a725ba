"""Values that hold within a block of code, for the thread that runs it."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

Value = TypeVar("Value")


@contextlib.contextmanager
def held(variable: ContextVar[Any], value: Value) -> Iterator[Value]:
    """Gives a variable a value within the block, and the one that it had before afterwards."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)
