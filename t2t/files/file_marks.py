"""Detects by size and times whether a file has changed since it was last read, so that it need not be read again."""

import functools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_SETTLED_NS = 2_000_000_000
"""Age at which a file's times will show every later change: file systems store times in steps of up to 2 s."""


def file_marks(path: Path | str) -> list[int]:
    """Returns size in bytes, inode number, and times of modification and of status change in nanoseconds.

    Writing to a file, copying or replacing it changes at least one of them.

    Raises:
        OSError: there is no such file.
    """
    status = os.stat(path)
    return [status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]


def remembered(read: Callable[[Path], T]) -> Callable[[Path], T]:
    """Returns a function that reads a file as `read` does, but again only if the file has changed since.

    All callers get the same object, so that none may change it. Errors are not remembered.
    """

    @functools.lru_cache(maxsize=8)
    def read_version(path: Path, *marks: int) -> T:
        return read(path)

    @functools.wraps(read)
    def read_or_recall(path: Path) -> T:
        marks = file_marks(path)
        return read_version(path, *marks) if is_settled(marks) else read(path)

    return read_or_recall


def is_settled(marks: list[int]) -> bool:
    """Returns whether a file is so old that every later change gives it other times, unless the clock is set back."""
    return time.time_ns() - max(marks[2:]) > _SETTLED_NS
