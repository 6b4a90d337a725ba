"""An index of where lines of a large file begin, so that a range of lines can be read without those before it.

One pass over the file computes its checksum, counts its lines and notes the offset of about one line in each megabyte.
The index is stored in a sealed file with the size and times of the text file, and is valid as long as these are the
same. A gzip file has no offsets: its ranges are unpacked from its start.
"""

import bisect
import contextlib
import dataclasses
import hashlib
import itertools
import logging
import time
from collections import Counter
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

from t2t.errors import UserError
from t2t.files.atomic import (
    LockedError,
    exclusive_lock,
    lock_beside,
    os_errors_as_machine_errors,
    sha256_of,
)
from t2t.files.lines import GZIP_MAGIC, errors_of_reading, read_lines
from t2t.files.trust import file_marks, is_settled, read_record, read_sealed, write_sealed

log = logging.getLogger("t2t")

_CHUNK = 1 << 20
_MOST_PLACES = 1 << 16
_SECONDS_BETWEEN_LOOKS = 1.0


@dataclasses.dataclass(frozen=True)
class LineIndex:
    """The checksum of a file, the number of its lines, and where some of them begin."""

    sha256: str
    """Of the file's content, without unpacking."""
    lines: int
    places: list[tuple[int, int]]
    """(number of lines before, byte offset) of the beginnings of some lines, ascending; empty for gzip."""

    def read(self, path: Path | str, lines: range, tally: Counter[str]) -> Iterator[str]:
        """Yields a range of the lines of the file, counted from 0; see `t2t.files.lines.read_lines`."""
        before, offset = 0, 0
        if found := bisect.bisect_right(self.places, lines.start, key=itemgetter(0)):
            before, offset = self.places[found - 1]
        repaired: Counter[str] = Counter()
        following = read_lines(path, repaired, offset)
        for _ in itertools.islice(following, lines.start - before):
            repaired.clear()  # of what is passed over nothing counts
        for line in itertools.islice(following, len(lines)):
            tally.update(repaired)
            repaired.clear()
            yield line


@dataclasses.dataclass(frozen=True)
class _Kept:
    """An index as it is stored, with the `file_marks` of the text file."""

    marks: list[int]
    index: LineIndex


def index_lines(path: Path | str, chunk_bytes: int = _CHUNK, most_places: int = _MOST_PLACES) -> LineIndex:
    """Reads a file once (gzip: twice) and returns its index.

    Args:
        path: of the file.
        chunk_bytes: bytes that are read at a time, and least distance between two offsets.
        most_places: most offsets; if there would be more, only every second, fourth, ... is kept.

    Raises:
        UserError: it cannot be read, is damaged gzip, or UTF-16.
    """
    next(read_lines(path, Counter()), None)  # raises if it is not text
    with errors_of_reading(path), open(path, "rb") as file:
        if file.read(len(GZIP_MAGIC)) == GZIP_MAGIC:
            return LineIndex(sha256_of(Path(path)), sum(1 for _ in read_lines(path, Counter())), [])
        file.seek(0)
        return _index_plain(file, chunk_bytes, most_places)


def _index_plain(file: BinaryIO, chunk_bytes: int, most_places: int) -> LineIndex:
    digest, lines, size, last = hashlib.sha256(), 0, 0, b"\n"
    places, spacing = [(0, 0)], chunk_bytes
    while chunk := file.read(chunk_bytes):
        digest.update(chunk)
        offset = size + chunk.find(b"\n") + 1  # of the first line that begins after the start of the chunk
        if offset > size and offset - places[-1][1] >= spacing:
            places.append((lines + 1, offset))
        if len(places) > most_places:
            places, spacing = places[::2], 2 * spacing
        lines += chunk.count(b"\n")
        size, last = size + len(chunk), chunk[-1:]
    return LineIndex(digest.hexdigest(), lines + (last != b"\n"), places)


def kept_index(path: Path | str, kept: Path) -> LineIndex:
    """Returns the index of a file from the file `kept`, or makes and stores it.

    If several processes need it at once, the first makes it and the others wait.

    Raises:
        UserError: see `index_lines`.
        MachineError: the index cannot be written.
    """
    with os_errors_as_machine_errors(f"cannot write {kept}"):
        while (index := _read(path, kept)) is None:
            with contextlib.suppress(LockedError), exclusive_lock(lock_beside(kept)):
                return _read(path, kept) or _make(path, kept)
            time.sleep(_SECONDS_BETWEEN_LOOKS)
    return index


def _read(path: Path | str, kept: Path) -> LineIndex | None:
    """Returns the stored index; None if there is none, or the text file has changed since."""
    with errors_of_reading(path):
        marks = file_marks(path)
    with contextlib.suppress(OSError, ValueError, UserError):
        found = read_record(_Kept, read_sealed(kept))
        if found.marks == marks:
            return found.index
    return None


def _make(path: Path | str, kept: Path) -> LineIndex:
    log.info("counting the lines of %s", path)
    before = file_marks(path)
    index = index_lines(path)
    if file_marks(path) == before and is_settled(before):
        write_sealed(kept, dataclasses.asdict(_Kept(before, index)))
    return index
