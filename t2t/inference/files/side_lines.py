"""Side files of an input: line n of a side file is for the output of line n, e.g. its prefix."""

from collections import Counter
from collections.abc import Iterator

from t2t.errors import UserError
from t2t.files.line_index import LineIndex, index_lines
from t2t.files.lines import NUL_REMOVED, LineSource
from t2t.inference.files.shards import side_index, source_index
from t2t.inference.files.windows import FileJob


class SideLines:
    """The lines of a side file, read in order, from the first line that is requested.

    Args:
        flag: name of the flag that gives the file, for messages.
        path: line n belongs to line n of the input; empty lines have no effect.
        index: of the file.
        lines: the range of those that the job reads, from 0.
    """

    def __init__(self, flag: str, path: str, index: LineIndex, lines: range):
        self.sha256, self.lines = index.sha256, lines
        self._name, self._path, self._index = f"--{flag}={path}", path, index
        self._following: Iterator[str] = iter(())
        self._damage: Counter[str] = Counter()
        self._read = -1

    def name_of(self, number: int) -> str:
        """Returns the name of a line in messages; the first has number 0."""
        return f"{self._name}, line {number + 1:,}"

    def of_lines(self, start: int, count: int) -> list[str]:
        """Returns `count` lines after the first `start`; raises UserError where there are fewer, or one is damaged."""
        if self._read != start:
            self._damage.clear()
            rest = range(start, max(start, self._index.lines))
            self._following, self._read = self._index.read(self._path, rest, self._damage), start
        return [self._next() for _ in range(count)]

    def check_count(self, source: LineSource, count: int) -> None:
        """Raises UserError unless the file has `count` lines, as many as its input, `source`."""
        if self._index.lines != count:
            raise UserError(
                f"{self._name}: it has {self._index.lines:,} lines and {source} has {count:,}; line n belongs to line "
                f"n, so give as many, empty where nothing is prescribed"
            )

    def _next(self) -> str:
        line = next(self._following, None)
        if line is None:
            raise UserError(f"{self._name}: it ends after line {self._read:,}, before the input")
        if self._damage:
            damage = "NUL" if NUL_REMOVED in self._damage else "bytes that are no UTF-8"
            raise UserError(f"{self.name_of(self._read)}: it contains {damage}; correct the file")
        self._read += 1
        return line


def side_lines(flag: str, side: str, path: str, job: FileJob) -> SideLines:
    """Returns the lines of a side file of a job; `side` is one of `t2t.inference.files.shards.SIDES`.

    Raises:
        UserError: the file is a stream, or has another number of lines than the input; for an input that is a stream,
            `check_count` finds that at its end.
    """
    if LineSource(path).is_stream:
        raise UserError(f"--{flag}={path}: it is a stream, which can be read only once; give a file")
    decoded = LineSource(job.source)
    index = side_index(side, path, job.target) if job.shard else index_lines(path)
    lines = job.shard.lines(index.lines, job.window) if job.shard else range(index.lines)
    found = SideLines(flag, path, index, lines)
    if job.shard:
        found.check_count(decoded, source_index(job.source, job.target).lines)
    elif not decoded.is_stream:
        found.check_count(decoded, sum(1 for _ in decoded.lines(Counter())))
    return found
