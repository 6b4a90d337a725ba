"""A file of beginnings of outputs, beside the file that is decoded."""

import itertools
from collections import Counter

from t2t.errors import UserError
from t2t.files.source import LineSource


class PrefixLines:
    """The lines of a file, read once and in order.

    Args:
        path: line n belongs to line n of the input; an empty line prescribes nothing.
        source: the file that is decoded, or a stream.

    Raises:
        UserError: a stream, or another number of lines than the input has.
    """

    def __init__(self, path: str, source: str):
        own, decoded = LineSource(path), LineSource(source)
        if own.is_stream:
            raise UserError(f"--target_prefix_file={path}: it is a stream, which can be read only once; give a file")
        self.path = path
        self.sha256, _ = own.scan()
        self._lines = own.lines(Counter())
        self._read = 0
        if not decoded.is_stream:
            found, wanted = (sum(1 for _ in each.lines(Counter())) for each in (own, decoded))
            if found != wanted:
                raise UserError(
                    f"--target_prefix_file={path}: it has {found:,} lines and {source} has {wanted:,}; line n belongs "
                    f"to line n, so give as many, empty where nothing is prescribed"
                )

    def of_lines(self, start: int, count: int) -> list[str]:
        """Returns `count` lines after the first `start`; raises UserError where there are fewer."""
        skipped = start - self._read
        lines = list(itertools.islice(self._lines, skipped, skipped + count))
        self._read = start + len(lines)
        if len(lines) < count:
            raise UserError(f"--target_prefix_file={self.path}: it ends after line {self._read:,}, before the input")
        return lines
