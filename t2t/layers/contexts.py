"""Settings that hold within a block of code, for the thread that runs it, and apply to all layers called in it.

Layers may run several times in one forward pass, as in a recurrence over depth: their weights are the same in each
pass, but cache entries and recorded attention weights, which are stored by the path of a layer, have a separate name
for each. Programs may be built without hand-written gradients, and for converters to other formats, which support fewer
operations than TensorFlow.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, TypeVar

from keras import ops

Value = TypeVar("Value")


@contextlib.contextmanager
def held(variable: ContextVar[Any], value: Value) -> Iterator[Value]:
    """Sets a variable within the block, and restores its previous value afterwards."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)


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


_are_wanted = contextvars.ContextVar("gradients_are_wanted", default=True)


def without_gradients() -> AbstractContextManager[bool]:
    """Returns a context for building programs that are not differentiated.

    TensorFlow keeps every graph with a hand-written gradient until the process ends, so that a service would grow with
    every search that it compiles.
    """
    return held(_are_wanted, False)


def custom_gradient(function: Callable) -> Callable:
    """Does the same as `keras.ops.custom_gradient`, but not within `without_gradients`.

    Args:
        function: of tensors; returns its result and its gradient function.
    """
    with_gradient = ops.custom_gradient(function)

    def call(*tensors: Any) -> Any:
        return with_gradient(*tensors) if _are_wanted.get() else function(*tensors)[0]

    return call


_is_converted = contextvars.ContextVar("program_is_converted", default=False)


def for_converters() -> AbstractContextManager[bool]:
    """Returns a context for programs without lists of tensors, loops over blocks of attention and Fourier transforms.

    They compute the same with more memory or time, and must not be differentiated.
    """
    return held(_is_converted, True)


def is_for_converters() -> bool:
    """Returns whether the program is being built within `for_converters`."""
    return _is_converted.get()
