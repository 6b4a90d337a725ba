"""Records actions of Python that may go beyond what a user asked for: opened files, started programs, executed code.

Files that C libraries open themselves are not recorded.
"""

import contextlib
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

SYSTEM = ("/proc", "/sys", "/dev", "/etc", "/usr", "/lib", "/lib64")
PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "socket.connect")
EVENTS = ("open", "exec", "pickle.find_class", "os.listdir", "os.scandir", *PROGRAMS)

_seen: list[tuple[str, tuple]] | None = None
_changes_left: int | None = None
_hooked = False


class Killed(BaseException):
    """Stands for the death of the process."""


def _hook(event: str, arguments: tuple) -> None:
    global _changes_left
    if _seen is not None and event in EVENTS:
        _seen.append((event, arguments))
    if _changes_left is not None and event in ("os.rename", "os.remove"):
        _changes_left -= 1
        if _changes_left < 0:
            raise Killed if _changes_left == -1 else OSError("the process is dead")


def _add_hook() -> None:
    global _hooked
    if not _hooked:
        sys.addaudithook(_hook)  # hooks cannot be removed
        _hooked = True


@contextlib.contextmanager
def killed_after(changes: int) -> Iterator[None]:
    """Within the block, only so many files can be renamed or removed; the next attempt ends it with `Killed`.

    What cleans up on the way changes nothing any more.
    """
    global _changes_left
    _add_hook()
    _changes_left = changes
    try:
        yield
    except Exception as error:
        if _changes_left < 0:
            raise Killed from error
        raise
    finally:
        _changes_left = None


@contextlib.contextmanager
def audited() -> Iterator[list[tuple[str, tuple]]]:
    """Yields a list that collects the audit events of the `with` block and their arguments; see `sys.addaudithook`."""
    global _seen
    _add_hook()
    _seen = found = []
    try:
        yield found
    finally:
        _seen = None


def outside(events: list[tuple[str, tuple]], *folders: Path) -> set[str]:
    """Returns the opened files and folders outside the given folders and installed software."""
    installed = {sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), *sys.path} - {""}
    inside = tuple(os.path.join(os.path.realpath(folder), "") for folder in {*folders, *installed, *SYSTEM})
    asked = {arguments[0] for event, arguments in events if event in ("open", "os.listdir", "os.scandir")}
    paths = {os.path.realpath(os.fsdecode(path)) for path in asked if isinstance(path, str | bytes | os.PathLike)}
    return {path for path in paths if not os.path.join(path, "").startswith(inside)}


def programs(events: list[tuple[str, tuple]]) -> set[str]:
    """Returns the events that start programs or use the network."""
    return {f"{event} {arguments}" for event, arguments in events if event in PROGRAMS}


def unpickled(events: list[tuple[str, tuple]]) -> set[str]:
    """Returns the names that pickles looked up."""
    return {".".join(arguments) for event, arguments in events if event == "pickle.find_class"}


def executed(events: list[tuple[str, tuple]], folder: Path) -> set[str]:
    """Returns the files in a folder whose code was executed."""
    files = {getattr(arguments[0], "co_filename", "") for event, arguments in events if event == "exec"}
    return {file for file in files if Path(file).resolve().is_relative_to(folder.resolve())}
