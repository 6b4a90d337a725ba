"""Side files of an input: line n of a side file is for the output of line n, e.g. its prefix."""

import itertools
from collections import Counter
from collections.abc import Iterator

from t2t.errors import UserError
from t2t.files.line_index import LineIndex, index_lines
from t2t.files.source import LineSource
from t2t.inference.files.shards import side_index, source_index
from t2t.inference.files.windows import FileJob


class SideLines:
    """The lines of a side file, read once and in order, from the first line that is requested.

    Args:
        flag: name of the flag that gives the file, for messages.
        path: line n belongs to line n of the input; empty lines have no effect.
        index: of the file.
    """

    def __init__(self, flag: str, path: str, index: LineIndex):
        self.name, self.sha256 = f"--{flag}={path}", index.sha256
        self._path, self._index = path, index
        self._lines: Iterator[str] = iter(())
        self._read = -1

    def of_lines(self, start: int, count: int) -> list[str]:
        """Returns `count` lines after the first `start`; raises UserError where there are fewer."""
        if self._read != start:
            self._lines = self._index.read(self._path, range(start, max(start, self._index.lines)), Counter())
        lines = list(itertools.islice(self._lines, count))
        self._read = start + len(lines)
        if len(lines) < count:
            raise UserError(f"{self.name}: it ends after line {self._read:,}, before the input")
        return lines


def side_lines(flag: str, side: str, path: str, job: FileJob) -> SideLines:
    """Returns the lines of a side file of a job; `side` is one of `t2t.inference.files.shards.SIDES`.

    Raises:
        UserError: the file is a stream, or has another number of lines than the input.
    """
    if LineSource(path).is_stream:
        raise UserError(f"--{flag}={path}: it is a stream, which can be read only once; give a file")
    decoded, wanted = LineSource(job.source), None
    if job.shard:
        index, wanted = side_index(side, path, job.target), source_index(job.source, job.target).lines
    else:
        index = index_lines(path)
        if not decoded.is_stream:
            wanted = sum(1 for _ in decoded.lines(Counter()))
    if wanted not in (None, index.lines):
        raise UserError(
            f"--{flag}={path}: it has {index.lines:,} lines and {job.source} has {wanted:,}; line n "
            f"belongs to line n, so give as many, empty where nothing is prescribed"
        )
    return SideLines(flag, path, index)
