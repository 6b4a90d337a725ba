r"""Sources of lines: a file, plain or gzip, or a stream that can be read only once, such as standard input.

Lines end only at `\n`; see `t2t.files.lines` for the repairs made to them.
"""

import hashlib
import stat
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from t2t.errors import UserError
from t2t.files.lines import GZIP_MAGIC, errors_of_reading, read_lines, stream_lines

STANDARD = "-"
"""Name of standard input and standard output on the command line."""

WINDOW = 4096
"""Lines that are decoded together, sorted by length, by default."""

_CHUNK = 1 << 20


class LineSource:
    """Lines of text.

    Args:
        path: a file, `-` for standard input, or another stream such as a named pipe.

    Raises:
        UserError: there is no such file, or it is a folder.
    """

    def __init__(self, path: str):
        self.path = path
        self.is_stream = path == STANDARD or not _is_regular(path)

    def __str__(self) -> str:
        return "standard input" if self.path == STANDARD else self.path

    def lines(self, tally: Counter[str]) -> Iterator[str]:
        """Yields the lines; for a stream, only once. See `t2t.files.lines.read_lines` for `tally` and errors."""
        if not self.is_stream:
            yield from read_lines(self.path, tally)
        elif self.path == STANDARD:
            yield from stream_lines(sys.stdin.buffer, tally, str(self))
        else:
            with open(self.path, "rb") as stream:
                yield from stream_lines(stream, tally, self.path)

    def scan(self) -> tuple[str, int | None]:
        """Returns the sha256 of the content and the number of lines, None for gzip. Not for streams.

        Raises:
            UserError: the file cannot be read.
        """
        digest, breaks, last, packed = hashlib.sha256(), 0, b"", False
        with errors_of_reading(self.path), open(self.path, "rb") as file:
            while chunk := file.read(_CHUNK):
                packed = packed or (not last and chunk.startswith(GZIP_MAGIC))
                digest.update(chunk)
                breaks += chunk.count(b"\n")
                last = chunk[-1:]
        return digest.hexdigest(), None if packed else breaks + (last not in (b"\n", b""))


def _is_regular(path: str) -> bool:
    with errors_of_reading(path):
        mode = Path(path).stat().st_mode
    if stat.S_ISDIR(mode):
        raise UserError(f"{path}: it is a folder; give a file, or - for standard input")
    return stat.S_ISREG(mode)
