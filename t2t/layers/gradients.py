"""Functions whose gradient is written out, next to the function."""

import contextvars
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from keras import ops

from t2t.layers.contexts import held

_are_wanted = contextvars.ContextVar("gradients_are_wanted", default=True)


def without_gradients() -> AbstractContextManager[bool]:
    """Builds programs of which no gradient is taken.

    TensorFlow keeps every graph with a written-out gradient as long as the process lives; a service that compiles
    searches would grow with each of them.
    """
    return held(_are_wanted, False)


def custom_gradient(function: Callable) -> Callable:
    """Does as `keras.ops.custom_gradient`; `without_gradients` the function alone is called.

    Args:
        function: of tensors; returns its result and the function of its gradient.
    """
    with_gradient = ops.custom_gradient(function)

    def call(*tensors: Any) -> Any:
        return with_gradient(*tensors) if _are_wanted.get() else function(*tensors)[0]

    return call
