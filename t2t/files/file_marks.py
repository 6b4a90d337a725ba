"""Whether a file is the one that was looked at before: by its size and times, so that it need not be read again."""

import os
import time
from pathlib import Path

_SETTLED_NS = 2_000_000_000
"""Age of a file from which on its times tell every later change; clocks of file systems have steps of up to 2 s."""


def file_marks(path: Path | str) -> list[int]:
    """Returns size, number in the file system, times of last change of content and of status.

    Whatever writes to a file, copies it or puts another in its place changes at least one of them.

    Raises:
        OSError: there is no such file.
    """
    status = os.stat(path)
    return [status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]


def is_settled(marks: list[int]) -> bool:
    """Returns whether a file is old enough that a change from now on gives it other times; not by a clock set back."""
    return time.time_ns() - max(marks[2:]) > _SETTLED_NS
