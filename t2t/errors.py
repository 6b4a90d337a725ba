"""Errors that are shown to the user as one line.

An error is data: the option or hparam that it is about, its value, what was found and what is allowed, and what to do.
The door that the request came through writes the line: `--train_steps=0: ...` for a command, `train_steps=0: ...` for a
Python function or a body of JSON. Texts mention other options and commands as the terminal has them, `--data_dir` and
`t2t-datagen`; the door of Python writes these its own way, too (`t2t.runs.arguments`).

A `UserError` ends a command with exit status 2, a `MachineError` with 1; any other exception is a bug and keeps its
traceback.
"""

import contextlib
import difflib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

_MOST_NEAREST = 3
"""Names that an error proposes for an unknown one."""
_MOST_SHOWN = 200
"""Characters of a text that are compared or quoted."""
_PLAIN = re.compile(r"""(?!--)[^\s'"]+""")
"""Values that are written without quotes."""


class T2TError(Exception):
    """An error whose message is written for the person at the terminal; commands print it as one line.

    Args:
        found: what was found, and what is allowed.
        remedy: what to do; "" where `found` says it.
        option: name of the option that the error is about, the same for commands, functions and files; "" for none.
        hparam: name of the hparam that it is about; "" for none.
        value: the value of that option or hparam as it was given; `...` if none was, or if it is not what is wrong.
    """

    exit_status = 1
    dashes = "--"
    """What options begin with where no door has taken the error."""
    door: Callable[["T2TError"], str] | None = None
    """Writes the message for another reader than that of a terminal."""

    def __init__(self, found: str, remedy: str = "", *, option: str = "", hparam: str = "", value: object = ...):
        super().__init__(found, remedy)
        self.found, self.remedy = found, remedy
        self.option, self.hparam, self.value = option, hparam, value

    def __str__(self) -> str:
        return self.door(self) if self.door else self.message()

    def message(self, option: str = "", spell: Callable[[str], str] = str) -> str:
        """Returns the line.

        Args:
            option: how the name of the option is written; "" for the way of a terminal.
            spell: writes a text, and with it the options that it mentions, for another reader.
        """
        subject = (option or f"{self.dashes}{self.option}") if self.option else self.hparam and f"hparam {self.hparam}"
        if self.value is not ...:
            subject += f"={self.shown(self.value)}"
        found = spell(self.found)
        text = f"{subject}: {found}" if subject else found
        return f"{text}; {spell(self.remedy)}" if self.remedy else text

    def at(self, place: str) -> Self:
        """Returns the same error with the place where it was found, such as a file and a line, in front."""
        bare = type(self)(self.found, option=self.option, hparam=self.hparam, value=self.value)
        return type(self)(f"{place}: {bare}", self.remedy)

    @staticmethod
    def shown(value: object) -> str:
        """Returns a value on one line; a text as Python writes it if it could be taken for a part of the sentence."""
        text = str(value)
        return text if (text.isprintable() and _PLAIN.fullmatch(text)) or not isinstance(value, str) else repr(text)


class UserError(T2TError):
    """The request cannot be fulfilled, but the user can correct it."""

    exit_status = 2


class MachineError(T2TError):
    """The request was fine, the machine was not: disk full, no permission, out of memory."""

    exit_status = 1


class UnknownNameError(UserError, LookupError):
    """A name that is not registered, not a field, not a flag."""


class ArgumentError(UserError, TypeError, ValueError):
    """An argument of a Python function that has the wrong type or value; a TypeError and a ValueError, too."""

    dashes = ""

    @staticmethod
    def shown(value: object) -> str:
        """Returns a value as Python writes it."""
        return repr(value)


class UnknownArgumentError(ArgumentError, UnknownNameError):
    """An argument that a Python function does not have."""


def nearest(name: str, known: Iterable[str], cutoff: float = 0.5) -> list[str]:
    """Returns at most `_MOST_NEAREST` known names that resemble `name`, the most similar first.

    `cutoff` is the least resemblance, from 0 to 1. The comparison takes time with the square of the length, so only the
    first `_MOST_SHOWN` characters count.
    """
    return difflib.get_close_matches(name[:_MOST_SHOWN], sorted(known), n=_MOST_NEAREST, cutoff=cutoff)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns "did you mean a, b or c? " (with the trailing space), or "" if no known name is similar."""
    return ask_for(nearest(name, known))


def ask_for(names: Sequence[str]) -> str:
    """Returns "did you mean a, b or c? " (with the trailing space), or "" without names."""
    if not names:
        return ""
    listed = names[0] if len(names) == 1 else ", ".join(names[:-1]) + " or " + names[-1]
    return f"did you mean {listed}? "


def one_line(text: object) -> str:
    """Returns `text` on a single line, for quoting another error's message."""
    return " ".join(str(text).split())


def asked_and_found(asked: str, found: str) -> str:
    """Returns `requested a, found b`; long texts are cut to the part around their first difference."""
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(asked, found, strict=False)))
    begin = max(0, same - 100)
    return f"requested {_cut(asked, begin)}, found {_cut(found, begin)}"


def _cut(text: str, begin: int) -> str:
    """Returns a text, cut to `_MOST_SHOWN` characters from about `begin` on if it is longer; `...` marks the cuts."""
    if len(text) <= _MOST_SHOWN:
        return text
    begin = min(begin, len(text) - _MOST_SHOWN)
    end = begin + _MOST_SHOWN
    return ("..." if begin else "") + text[begin:end] + ("..." if end < len(text) else "")


def first_few(texts: Sequence[str], separator: str = "; ", most: int = 8) -> str:
    """Returns the first texts, joined, and how many more there are: `a; b; and 12 more`."""
    return separator.join([*texts[:most], *([f"and {len(texts) - most} more"] if len(texts) > most else [])])


@contextlib.contextmanager
def memory_errors_as_machine_errors(what: str, cure: str) -> Iterator[None]:
    """Context that turns out-of-memory errors of the processor or a device into a MachineError.

    Args:
        what: what does not fit, for the message.
        cure: what to change, for the message.
    """
    try:
        yield
    except Exception as error:
        # Errors of TensorFlow and JAX are recognized by class name, as neither is imported here. JAX has only one
        # class.
        name = type(error).__name__
        is_of_jax = name == "JaxRuntimeError" and str(error).startswith("RESOURCE_EXHAUSTED")
        if isinstance(error, MemoryError) or name == "ResourceExhaustedError" or is_of_jax:
            raise MachineError(f"{what} does not fit into the device's memory", cure) from error
        raise


@contextlib.contextmanager
def needs_extra(extra: str, need: str) -> Iterator[None]:
    """Context for importing optional packages; raises UserError if one is not installed.

    Args:
        extra: the extra of this project, for pip, that installs the packages.
        need: what needs them, e.g. a flag or a problem.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "t2t"):  # a bug of this project
            raise
        install = f"'t2t-keras[{extra}]'" if extra else package
        raise UserError(f"{need}: the package {package} is not installed", f"pip install {install}") from None


def shapes_of(batch: Mapping[str, Any]) -> str:
    """Describes a batch by its shapes, for a message: `a batch of inputs (64, 20), targets (64, 22)`."""
    return "a batch of " + ", ".join(f"{name} {array.shape}" for name, array in batch.items())
