"""Comparing the files of generated data with the checksums of its manifest, once a file.

What was found whole is remembered in a side file of the manifest, `.verified.json`, with the file's size, its number in
the file system and its times of change: whatever writes to a file, copies it or puts another in its place changes at
least one of them, the time of status change even where the other is set back. So a side file that came with a folder
from elsewhere tells nothing, and neither does one that was written for other checksums. What changes without a write,
on a disk that fails, is noticed on the first opening and not again: remove the side file to have all compared again.
"""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from t2t.data.manifest import REMEDY, FileRecord
from t2t.errors import UserError
from t2t.files.atomic import sha256_of
from t2t.files.file_marks import file_marks, is_settled
from t2t.files.trust import read_sealed, write_sealed

SIDE_FILE = ".verified.json"


def verify_files(folder: Path, records: Iterable[FileRecord]) -> None:
    """Compares files with their checksums, about a gigabyte a second; files that were whole before cost nothing.

    Where the folder cannot be written, nothing is remembered.

    Raises:
        UserError: a file is not what was generated.
    """
    for name in find_changed(folder, records):
        path = Path(folder) / name
        raise UserError(f"{path} is corrupt: its sha256 is not the one in the manifest; {REMEDY}")


def find_changed(folder: Path, records: Iterable[FileRecord]) -> Iterator[str]:
    """Yields the names of files that are not what was generated, missing ones included; see `verify_files`."""
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
        with contextlib.suppress(OSError):  # read-only data, or a full disk: all is compared again next time
            write_sealed(folder / SIDE_FILE, found)


def _read(folder: Path) -> dict[str, Any]:
    """Returns what is remembered by name of file; nothing where the side file is missing or damaged."""
    with contextlib.suppress(OSError, ValueError, UserError):
        return read_sealed(folder / SIDE_FILE)
    return {}
