"""Functions with a hand-written gradient."""

import contextvars
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from keras import ops

from t2t.layers.contexts import held

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
