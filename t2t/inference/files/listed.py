"""Recordings and images whose paths are the lines of a file that is decoded.

What is decoded is recorded with their sizes and times, as one number. So outputs of files that have changed since are
not kept, and those of others are, e.g. when decoding has stopped at a missing file that is then added.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from t2t.files.atomic import os_errors_as_machine_errors
from t2t.files.paths import local_path
from t2t.files.remote.mirror import fetch


def listed_files(lines: Sequence[str], folder: Path) -> list[Path]:
    """Returns the paths that lines give, and fetches those of object stores; files may be missing.

    Args:
        lines: paths relative to the folder, or addresses of object stores.
        folder: of the file with the lines.

    Raises:
        UserError: an address is malformed, or its scheme unknown.
        MachineError: the store refuses or does not respond.
    """
    paths = [folder / (local_path(line) if "://" in line else line) for line in lines]
    with os_errors_as_machine_errors("cannot read the files that lines name"):
        fetch(*paths)
    return paths


def marks_of(lines: Sequence[str], paths: Sequence[Path]) -> int:
    """Returns a number that changes with the size or time of each file; the sum over parts is that of the whole.

    Args:
        lines: see `listed_files`.
        paths: their files; one may be missing.
    """
    return sum(map(_marks_of_one, lines, paths))


def _marks_of_one(line: str, path: Path) -> int:
    try:
        status = path.stat()
        marks = f"{status.st_size} {status.st_mtime_ns}"
    except OSError:
        marks = "missing"
    return int.from_bytes(hashlib.sha256(f"{marks} {line}".encode()).digest()[:8])
