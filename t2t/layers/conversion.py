"""Programs for converters to other formats, which know fewer operations than TensorFlow."""

import contextlib
import contextvars
from collections.abc import Iterator

_is_converted = contextvars.ContextVar("program_is_converted", default=False)


@contextlib.contextmanager
def for_converters() -> Iterator[None]:
    """Builds programs without lists of tensors, loops over blocks of attention and Fourier transforms.

    They compute the same, with more memory or more time, and are not to be differentiated.
    """
    token = _is_converted.set(True)
    try:
        yield
    finally:
        _is_converted.reset(token)


def is_for_converters() -> bool:
    """Returns whether the program that is being built is one of `for_converters`."""
    return _is_converted.get()
