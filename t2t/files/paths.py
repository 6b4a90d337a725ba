"""Paths that a user names, which lie on this machine: no file system of elsewhere is read or written."""

import glob
import os
import re
from collections.abc import Sequence
from pathlib import Path

from t2t.errors import UserError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_PATTERN = re.compile(r"[*?[]")


def check_local(path: str | os.PathLike[str], flag: str = "") -> None:
    """Refuses what names another file system: `gs://bucket/data` would become a folder `gs:` here.

    Args:
        path: as the user gave it; `pathlib` leaves out the second slash.
        flag: that it was given for, for the message.

    Raises:
        UserError: it begins with a scheme.
    """
    text = os.fspath(path)
    found = _SCHEME.match(text) if isinstance(text, str) else None
    if found:
        raise UserError(
            f"{f'--{flag}=' if flag else ''}{text}: paths with {found[1]}:// are not supported; name a path of this "
            f"machine, such as the folder where that storage is mounted"
        )


def local_path(path: str | os.PathLike[str]) -> Path:
    """Returns a path that a user named, with `~` for the home folder.

    Raises:
        UserError: it names another file system, see `check_local`.
    """
    check_local(path)
    return Path(path).expanduser()


def named_files(names: str | os.PathLike[str]) -> list[Path]:
    """Returns the absolute paths of the files that a user named: one, or several with commas between them.

    A name may be a pattern such as `part-*.en`, for which stand the files that it matches, in the order of their names;
    one that matches none is returned as it is. What is a file as it stands is neither a list nor a pattern.

    Raises:
        UserError: a name is that of another file system.
    """
    whole, parts = local_path(names).absolute(), os.fspath(names).split(",")
    if whole.is_file() or len(parts) == 1:
        return _matches(whole)
    return [path for part in parts if part.strip() for path in _matches(local_path(part.strip()).absolute())]


def join_names(paths: Sequence[Path]) -> str:
    """Returns files as `named_files` reads them.

    Raises:
        UserError: one of several names has a comma in it.
    """
    names = [str(path) for path in paths]
    if len(names) > 1 and (wrong := next((name for name in names if "," in name), None)):
        raise UserError(f"{wrong}: commas are between the names of files, and this one has a comma; rename it")
    return ",".join(names)


def _matches(path: Path) -> list[Path]:
    if not _PATTERN.search(str(path)) or path.exists():
        return [path]
    return sorted(map(Path, glob.glob(str(path)))) or [path]


def is_unknown_home(path: str) -> bool:
    """Returns whether a path begins with the home folder of nobody, as `~nobody/data` does."""
    return path.startswith("~") and os.path.expanduser(path).startswith("~")
