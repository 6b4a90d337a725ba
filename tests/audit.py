"""What Python is asked to do that could reach beyond what a user named: files opened, programs begun, code run.

What libraries of C open by themselves is not seen.
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
_hooked = False


def _hook(event: str, arguments: tuple) -> None:
    if _seen is not None and event in EVENTS:
        _seen.append((event, arguments))


@contextlib.contextmanager
def audited() -> Iterator[list[tuple[str, tuple]]]:
    """Yields a list that grows by what is done in the `with` block: events of `sys.addaudithook`, their arguments."""
    global _seen, _hooked
    if not _hooked:
        sys.addaudithook(_hook)  # which stays for as long as the process does
        _hooked = True
    _seen = found = []
    try:
        yield found
    finally:
        _seen = None


def outside(events: list[tuple[str, tuple]], *folders: Path) -> set[str]:
    """Returns which files and folders were opened that belong neither to some folders nor to what is installed."""
    installed = {sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), *sys.path} - {""}
    inside = tuple(os.path.join(os.path.realpath(folder), "") for folder in {*folders, *installed, *SYSTEM})
    asked = {arguments[0] for event, arguments in events if event in ("open", "os.listdir", "os.scandir")}
    paths = {os.path.realpath(os.fsdecode(path)) for path in asked if isinstance(path, str | bytes | os.PathLike)}
    return {path for path in paths if not os.path.join(path, "").startswith(inside)}


def programs(events: list[tuple[str, tuple]]) -> set[str]:
    """Returns what was begun of other programs, or asked of the network."""
    return {f"{event} {arguments}" for event, arguments in events if event in PROGRAMS}


def unpickled(events: list[tuple[str, tuple]]) -> set[str]:
    """Returns what pickles named."""
    return {".".join(arguments) for event, arguments in events if event == "pickle.find_class"}


def executed(events: list[tuple[str, tuple]], folder: Path) -> set[str]:
    """Returns the files in a folder whose code was run."""
    files = {getattr(arguments[0], "co_filename", "") for event, arguments in events if event == "exec"}
    return {file for file in files if Path(file).resolve().is_relative_to(folder.resolve())}
