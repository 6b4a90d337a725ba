"""Programs for converters to other formats, which support fewer operations than TensorFlow."""

import contextvars
from contextlib import AbstractContextManager

from t2t.layers.contexts import held

_is_converted = contextvars.ContextVar("program_is_converted", default=False)


def for_converters() -> AbstractContextManager[bool]:
    """Returns a context for programs without lists of tensors, loops over blocks of attention and Fourier transforms.

    They compute the same with more memory or time, and must not be differentiated.
    """
    return held(_is_converted, True)


def is_for_converters() -> bool:
    """Returns whether the program is being built within `for_converters`."""
    return _is_converted.get()
