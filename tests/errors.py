"""Errors in tests: expecting one by what it is about, and the checks of every error that is made while tests run."""

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from t2t import errors
from t2t.errors import T2TError, UserError

PACKAGE = Path(errors.__file__).parent
unchecked_init = T2TError.__init__
"""What makes an error where nothing checks its form."""


@contextlib.contextmanager
def refused(*about: object, by: type[Exception] = UserError) -> Iterator[pytest.ExceptionInfo]:
    """Expects the code in its block to raise an error of a class, whose message names all of `about`.

    Args:
        *about: what the error is about, each without spaces: names of options, features, files, layers, registered
            names; values. Sentences stay free; their form is checked wherever an error is made, see `check_errors`.
        by: the class.

    Yields:
        The same as `pytest.raises`.
    """
    words = [str(word) for word in about]
    assert not [word for word in words if word.split() != [word]], f"sentences are not for tests: {words}"
    with pytest.raises(by) as raised:
        yield raised
    missing = [word for word, what in zip(words, about, strict=True) if not _names(str(raised.value), word, what)]
    assert not missing, f"the error does not name {missing}: {raised.value}"


def _names(message: str, word: str, what: object) -> bool:
    """Returns whether a message has a word; a number must stand by itself, as the names of folders have digits."""
    if isinstance(what, int | float):
        return re.search(rf"(?<![\w.]){re.escape(word)}(?!\w|\.\d)", message) is not None
    return word in message


def check_errors(made: set[str]) -> None:
    """Has every error of this process check its form, and note in `made` the line that made it, as `path:line`."""

    def make(self: T2TError, *args: Any, **fields: Any) -> None:
        unchecked_init(self, *args, **fields)
        check_form(str(self))
        frame = sys._getframe(1)
        made.add(f"{frame.f_code.co_filename}:{frame.f_lineno}")

    T2TError.__init__ = make  # type: ignore[method-assign]


def check_form(message: str) -> None:
    """Asserts that a message is one line for a person: no traceback, no object of Python."""
    assert message, "an error without a message"
    assert message.splitlines() == [message.strip()], f"an error of several lines, or with space around it: {message!r}"
    assert "Traceback" not in message, message
    assert " object at 0x" not in message, message
    assert not message.endswith((":", ";", ",")), f"an error that does not end: {message}"


OURS = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, T2TError)}
