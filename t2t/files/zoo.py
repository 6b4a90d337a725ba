"""Trained runs that are found by name, `zoo:ende_numbers`, and never changed.

A zoo is a folder whose folders are runs. Names are looked up in those of `--zoo_dir`, or of the variable `T2T_ZOO`, and
then in the package. Whatever is made from such a run, for example a conversion, is kept elsewhere.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from t2t.errors import UnknownNameError, UserError, did_you_mean

PREFIX = "zoo:"
VARIABLE = "T2T_ZOO"
PACKAGE = Path(os.path.realpath(__file__)).parents[1] / "zoo"
"""The folder of the runs that come with the package."""


def names_zoo(path: str | os.PathLike[str]) -> bool:
    """Returns whether a path that a user gave is the name of a run in a zoo, or of a file in it."""
    return str(path).startswith(PREFIX)


def zoo_folders() -> list[Path]:
    """Returns the folders in which names are looked up, in order."""
    named = [text.strip() for text in os.environ.get(VARIABLE, "").split(",")]
    return [*(Path(os.path.realpath(os.path.expanduser(text))) for text in named if text), PACKAGE]


def zoo_runs() -> dict[str, Path]:
    """Returns the folder of each run by its name, sorted; of several with a name, the first that is found.

    Raises:
        UserError: a folder of the zoo does not exist.
    """
    found: dict[str, Path] = {}
    for folder in zoo_folders():
        if not folder.is_dir():
            raise UserError(f"--zoo_dir={folder}: there is no such folder; correct it, or the variable {VARIABLE}")
        for path in folder.iterdir():
            if path.is_dir() and not path.name.startswith("."):
                found.setdefault(path.name, path)
    return dict(sorted(found.items()))


def zoo_path(text: str) -> Path:
    """Returns the path for `zoo:NAME` or `zoo:NAME/file`.

    Raises:
        UnknownNameError: there is no run of that name.
        UserError: the rest of the path leads out of it.
    """
    name, *rest = text.removeprefix(PREFIX).rstrip("/").split("/")
    runs = zoo_runs()
    if name not in runs:
        near = did_you_mean(name, runs) if name else ""
        raise UnknownNameError(
            f"{text}: the zoo has no run {name!r}; {near}it has {', '.join(runs) or 'none'}; name one of them, or the "
            f"folder of others with --zoo_dir or the variable {VARIABLE}"
        )
    if any(part in ("", ".", "..") for part in rest):
        raise UserError(f"{text}: write the path without empty parts, . and ..")
    return runs[name].joinpath(*rest)


def name_in_package(path: str | os.PathLike[str]) -> str | None:
    """Returns `zoo:NAME/file` for a path in the package's zoo; it stays valid where the package is another folder."""
    real = Path(os.path.realpath(path))
    return f"{PREFIX}{real.relative_to(PACKAGE).as_posix()}" if PACKAGE in real.parents else None


def is_in_zoo(path: str | os.PathLike[str]) -> bool:
    """Returns whether a path is in one of the zoos, so that nothing may be written there."""
    real = Path(os.path.realpath(path))
    return any(folder in real.parents for folder in zoo_folders())


def check_outside_zoo(path: str | os.PathLike[str], flag: str = "") -> None:
    """Refuses to write to a path in a zoo.

    Raises:
        UserError: it is in one.
    """
    if is_in_zoo(path):
        raise UserError(
            f"{f'--{flag}=' if flag else ''}{name_in_package(path) or path}: it is in a zoo, whose runs are only read; "
            f"name another folder, or train a new run with --warm_start_from"
        )


@contextlib.contextmanager
def zoo_in(folders: str) -> Iterator[None]:
    """Context in which names are looked up in these folders, with commas between them, not those of the variable.

    An empty text changes nothing. Processes that are started meanwhile look there, too.
    """
    before = os.environ.get(VARIABLE)
    if folders:
        os.environ[VARIABLE] = folders
    try:
        yield
    finally:
        if folders:
            os.environ.pop(VARIABLE)
            os.environ.update({} if before is None else {VARIABLE: before})
