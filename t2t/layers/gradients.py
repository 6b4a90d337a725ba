"""Functions whose gradient is written out, next to the function."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

from keras import ops

_are_wanted = contextvars.ContextVar("gradients_are_wanted", default=True)


@contextlib.contextmanager
def without_gradients() -> Iterator[None]:
    """Builds programs of which no gradient is taken.

    TensorFlow keeps every graph with a written-out gradient as long as the process lives; a service that compiles
    searches would grow with each of them.
    """
    token = _are_wanted.set(False)
    try:
        yield
    finally:
        _are_wanted.reset(token)


def custom_gradient(function: Callable) -> Callable:
    """Does as `keras.ops.custom_gradient`; `without_gradients` the function alone is called.

    Args:
        function: of tensors; returns its result and the function of its gradient.
    """
    with_gradient = ops.custom_gradient(function)

    def call(*tensors: Any) -> Any:
        return with_gradient(*tensors) if _are_wanted.get() else function(*tensors)[0]

    return call
