"""The entry of a registered name, and the default name of a class or function."""

import dataclasses
import re
from typing import Generic, TypeVar

from t2t.errors import UserError

T = TypeVar("T")

_WORD_START = re.compile(r"(.)([A-Z][a-z0-9]+)")
_CAMEL_STEP = re.compile(r"([a-z0-9])([A-Z])")


class RegistrationError(UserError):
    """An invalid registration: bad name, taken name, wrong kind of object."""


def snake_case(name: str) -> str:
    """Returns Tensor2Tensor's default name of a class or function: `SliceNet` -> `slice_net`."""
    return _CAMEL_STEP.sub(r"\1_\2", _WORD_START.sub(r"\1_\2", name)).lower()


@dataclasses.dataclass(frozen=True)
class Entry(Generic[T]):
    """One registered name."""

    name: str
    summary: str
    """First line of the docstring."""
    origin: str
    """File and line of the registration, separated by a colon."""
    value: T | None
    """The registered object; None while its module has only been read, not imported."""
    alias_of: str = ""
    module: str = ""
    """Module whose import gives the value; of an entry that was read from source."""
    attribute: str = ""
    """Name of the value in that module."""
