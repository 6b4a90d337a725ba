"""Cuts text files into blocks of whole lines; parallel files are cut at the same lines.

A block is the part of the files that one process reads. A plain file is cut by counting its lines once; a gzip file is
one block, as no part of it can be read without everything before it.
"""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from t2t.files.lines import GZIP_MAGIC, check_start, errors_of_reading, pair_lines, read_lines, unequal_lengths

_BUFFER = 1 << 20

_FIRST_BYTES = 16
"""More than any kind of file needs to be recognized."""


@dataclasses.dataclass(frozen=True)
class LineBlock:
    """Consecutive lines of a file; all of them by default."""

    path: Path
    first: int = 1
    """Number of the first line, counted from 1."""
    start: int = 0
    """Byte at which that line begins."""
    stop: int | None = None
    """Byte at which the line after the last begins; None for the end of the file."""

    def read(self, tally: Counter[str]) -> Iterator[str]:
        """Yields its lines, see `read_lines`."""
        return read_lines(self.path, tally, self.start, self.stop)


def read_pairs(blocks: Sequence[LineBlock], tally: Counter[str]) -> Iterator[tuple[str, str]]:
    """Yields pairs of corresponding lines of two blocks; see `pair_lines`."""
    source, target = blocks
    return pair_lines(source.read(tally), target.read(tally), source.path, target.path, source.first - 1)


@dataclasses.dataclass
class _Cuts:
    """The beginnings of all blocks of a file except the first."""

    lines: list[int] = dataclasses.field(default_factory=list)
    """Number of lines before each."""
    offsets: list[int] = dataclasses.field(default_factory=list)
    """Number of bytes before each."""
    total: int = 0
    """Number of lines of the file."""


def cut_files(
    files: Sequence[Path], most_bytes: int, most_lines: int | None = None, buffer_bytes: int = _BUFFER
) -> list[tuple[LineBlock, ...]]:
    """Cuts parallel files, in which line n of each belongs together, into blocks with a part of every file.

    Args:
        files: one or more.
        most_bytes: a block ends with the line in which the largest file reaches so many bytes.
        most_lines: if given, blocks have so many lines, whatever their bytes.
        buffer_bytes: bytes that are read at a time.

    Raises:
        UserError: a file cannot be read, or lines were counted and their numbers differ.
    """
    sizes = [_plain_size(path) for path in files]
    if -1 in sizes or (most_lines is None and max(sizes) <= most_bytes):
        return [tuple(LineBlock(path) for path in files)]
    largest = files[sizes.index(max(sizes))]
    if most_lines:
        leading = _cut_at(largest, itertools.count(most_lines, most_lines), buffer_bytes)
    else:
        leading = _cut_by_bytes(largest, most_bytes, buffer_bytes)
    cuts = [leading if path == largest else _cut_at(path, leading.lines, buffer_bytes) for path in files]
    for path, cut in zip(files, cuts, strict=True):
        if cut.total != cuts[0].total:
            raise unequal_lengths(files[0], cuts[0].total, path, cut.total)
    return list(zip(*(_blocks(path, cut) for path, cut in zip(files, cuts, strict=True)), strict=True))


def _plain_size(path: Path) -> int:
    """Returns the size of a plain file in bytes, -1 for a gzip file."""
    with errors_of_reading(path), path.open("rb") as file:
        first = file.read(_FIRST_BYTES)
        check_start(first, path)  # before lines are counted, whose numbers would mean nothing
        return -1 if first.startswith(GZIP_MAGIC) else path.stat().st_size


def _blocks(path: Path, cuts: _Cuts) -> list[LineBlock]:
    starts = zip([0, *cuts.lines], [0, *cuts.offsets], [*cuts.offsets, None], strict=True)
    return [LineBlock(path, lines + 1, start, stop) for lines, start, stop in starts]


def _cut_by_bytes(path: Path, most_bytes: int, buffer_bytes: int) -> _Cuts:
    cuts, wanted = _Cuts(), most_bytes - 1
    for position, buffer in _buffers(path, buffer_bytes):
        while (end := buffer.find(b"\n", max(0, wanted - position))) >= 0:
            cuts.lines.append(cuts.total + buffer.count(b"\n", 0, end + 1))
            cuts.offsets.append(position + end + 1)
            wanted = cuts.offsets[-1] + most_bytes - 1
        cuts.total += buffer.count(b"\n")
    return _ended(path, cuts)


def _cut_at(path: Path, lines: Iterable[int], buffer_bytes: int) -> _Cuts:
    """Cuts a file after given numbers of lines, ascending; the file may have fewer lines."""
    cuts, following = _Cuts(), iter(lines)
    wanted = next(following, None)
    for position, buffer in _buffers(path, buffer_bytes):
        count, passed, end = buffer.count(b"\n"), 0, 0
        while wanted is not None and wanted <= cuts.total + count:
            while cuts.total + passed < wanted:
                passed, end = passed + 1, buffer.find(b"\n", end) + 1
            cuts.lines.append(wanted)
            cuts.offsets.append(position + end)
            wanted = next(following, None)
        cuts.total += count
    return _ended(path, cuts)


def _ended(path: Path, cuts: _Cuts) -> _Cuts:
    """Counts a last line without a line break, and removes a cut at the very end of the file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - 1))
        cuts.total += file.read(1) not in (b"", b"\n")
    if cuts.offsets and cuts.offsets[-1] == size:
        cuts.lines.pop()
        cuts.offsets.pop()
    return cuts


def _buffers(path: Path, buffer_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yields parts of a file, each with its offset in bytes in front."""
    position = 0
    with errors_of_reading(path), path.open("rb") as file:
        while buffer := file.read(buffer_bytes):
            yield position, buffer
            position += len(buffer)
