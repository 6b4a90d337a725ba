"""Commands that run in this process: with success, or refused in one line that names what it is about."""

import contextlib
import importlib
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple


class Printed(NamedTuple):
    """What a command has written to its two streams."""

    out: str
    err: str


def call(
    command: ModuleType, *arguments: object, status: int = 0, typed: bytes | None = None, **flags: object
) -> Printed:
    """Runs a command and asserts its exit status.

    Args:
        command: module of `t2t.cli`.
        *arguments: its command line, without the name of the command.
        status: the exit status that is expected.
        typed: standard input, of a stream like a terminal's; None leaves it as it is.
        **flags: more flags by name; True for one without a value.
    """
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", newline="", write_through=True) for _ in range(2)]
    named = [f"--{name}" if value is True else f"--{name}={value}" for name, value in flags.items()]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]), _standard_input(typed):
        found = command.main([name_of(command), *map(str, arguments), *named])
    printed = Printed(*(stream.buffer.getvalue().decode() for stream in streams))
    assert found == status, f"status {found}: {printed.err or printed.out}"
    return printed


@contextlib.contextmanager
def _standard_input(content: bytes | None) -> Iterator[None]:
    before = sys.stdin
    if content is not None:
        sys.stdin = io.TextIOWrapper(io.BytesIO(content))
    try:
        yield
    finally:
        sys.stdin = before


def refuses(command: ModuleType, about: str, *arguments: object, status: int = 2, **flags: object) -> Printed:
    """Runs a command that ends with an error: one line, the last one, which names every word of `about`.

    `about` has names and values, as for `tests.errors.refused`; sentences stay free.
    """
    printed = call(command, *arguments, status=status, **flags)
    start, lines = f"{name_of(command)}: error: ", printed.err.splitlines()
    assert [line for line in lines if line.startswith(start)] == lines[-1:], printed.err
    _check_names(lines[-1], about)
    return printed


def refusal(command: ModuleType, *arguments: object, status: int = 2) -> str:
    """Returns the line with which a command refuses its arguments; it writes nothing else."""
    printed = call(command, *arguments, status=status)
    assert printed.err.count("\n") == 1, printed.err
    assert printed.err.startswith(f"{name_of(command)}: error: ")
    return printed.err.removesuffix("\n")


def check_refused(command: ModuleType, *arguments: object, about: str, status: int = 2) -> None:
    """Like `refuses`, of a command that writes nothing but the error."""
    _check_names(refusal(command, *arguments, status=status), about)


def _check_names(line: str, about: str) -> None:
    missing = [word for word in about.split() if word not in line]
    assert not missing, f"the error does not name {missing}: {line}"


def module_of(name: str) -> ModuleType:
    """Returns the module of a command, by the name of its script in bin/."""
    script = (Path(__file__).parents[1] / "bin" / name).read_text(encoding="utf-8")
    return importlib.import_module(re.findall(r"from (t2t\.cli\.\w+) import main", script)[0])


def name_of(command: ModuleType) -> str:
    """Returns the name that a command is called by here; its console script may have another."""
    return f"t2t-{command.__name__.rpartition('.')[2].replace('_', '-')}"
