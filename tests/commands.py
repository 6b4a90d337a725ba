"""Commands of t2t that run in this process and are to refuse what they are given."""

import contextlib
import io
from types import ModuleType


def refusal(command: ModuleType, *arguments: object, status: int = 2) -> str:
    """Runs a command that ends with an exit status and one line on standard error; returns that line."""
    err = io.StringIO()
    with contextlib.redirect_stderr(err):
        found = command.main(["t2t-command", *map(str, arguments)])
    lines = err.getvalue().splitlines()
    assert (found, len(lines)) == (status, 1), (found, lines)
    assert lines[0].startswith("t2t-command: error: ")
    return lines[0]


def check_refused(command: ModuleType, *arguments: object, about: str, status: int = 2) -> None:
    """Checks that a command refuses what it is given in one line, which has all words of `about`."""
    line = refusal(command, *arguments, status=status)
    missing = [word for word in about.split() if word not in line]
    assert not missing, f"the error does not name {missing}: {line}"
