"""Paths that a user names, which lie on this machine: no file system of elsewhere is read or written."""

import os
import re
from pathlib import Path

from t2t.errors import UserError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


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


def is_unknown_home(path: str) -> bool:
    """Returns whether a path begins with the home folder of nobody, as `~nobody/data` does."""
    return path.startswith("~") and os.path.expanduser(path).startswith("~")
