"""Compares the files of generated data with the checksums in its manifest, each file once.

Verified files are recorded in a side file of the manifest, `.verified.json`, with their size, inode number and times of
modification and of status change. Writing to a file, copying or replacing it changes at least one of these; the time of
status change even if the modification time is set back. So a side file that was copied along with a folder, or written
for other checksums, has no effect. Changes without a write, on a failing disk, are noticed only at the first opening:
remove the side file to compare everything again.
"""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from t2t.data.manifest import REMEDY, FileRecord
from t2t.errors import UserError
from t2t.files.atomic import sha256_of
from t2t.files.trust import file_marks, is_settled, read_sealed, write_sealed

SIDE_FILE = ".verified.json"


def verify_files(folder: Path, records: Iterable[FileRecord]) -> None:
    """Compares files with their checksums, about a gigabyte per second; skips files that were verified before.

    If the folder cannot be written, nothing is recorded.

    Raises:
        UserError: a file is missing or has changed.
    """
    for name in find_changed(folder, records):
        path = Path(folder) / name
        raise UserError(f"{path} is corrupt: its sha256 is not the one in the manifest; {REMEDY}")


def find_changed(folder: Path, records: Iterable[FileRecord]) -> Iterator[str]:
    """Yields the names of files that have changed or are missing; see `verify_files`."""
    folder = Path(folder)
    known = _read(folder)
    found = dict(known)
    for record in records:
        path = folder / record.name
        try:
            before = file_marks(path)
            if known.get(record.name) == [record.sha256, *before]:
                continue
            is_same = sha256_of(path) == record.sha256
        except FileNotFoundError:
            is_same = False
        if not is_same:
            found.pop(record.name, None)
            yield record.name
            continue
        found.pop(record.name, None)
        if file_marks(path) == before and is_settled(before):
            found[record.name] = [record.sha256, *before]
    if found != known:
        with contextlib.suppress(OSError):  # read-only data, or a full disk: everything is compared again next time
            write_sealed(folder / SIDE_FILE, found)


def _read(folder: Path) -> dict[str, Any]:
    """Returns the recorded files by name; empty if the side file is missing or damaged."""
    with contextlib.suppress(OSError, ValueError, UserError):
        return read_sealed(folder / SIDE_FILE)
    return {}
