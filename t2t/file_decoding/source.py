r"""Where lines come from: a file, packed or not, or a stream that can be read once, such as standard input.

Lines end at `\n` and nowhere else; see `t2t.text.lines` for what is mended in them.
"""

import hashlib
import stat
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from t2t.errors import UserError, one_line
from t2t.text.lines import clean_line, read_lines

STANDARD = "-"
"""Name of standard input and standard output on the command line."""

WINDOW = 4096
"""Lines that are decoded together, sorted by length, by default."""

_CHUNK = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"
_UTF8_MARK = b"\xef\xbb\xbf"


class LineSource:
    """Lines of text.

    Args:
        path: a file, `-` for standard input, or a stream of the system such as a named pipe.

    Raises:
        UserError: there is no such file, or it is a folder.
    """

    def __init__(self, path: str):
        self.path = path
        self.is_stream = path == STANDARD or not _is_regular(path)

    def __str__(self) -> str:
        return "standard input" if self.path == STANDARD else self.path

    def lines(self, tally: Counter) -> Iterator[str]:
        """Yields the lines; of a stream, once only. See `t2t.text.lines.read_lines` for `tally` and errors."""
        if not self.is_stream:
            yield from read_lines(self.path, tally)
        elif self.path == STANDARD:
            yield from stream_lines(sys.stdin.buffer, tally)
        else:
            with open(self.path, "rb") as stream:
                yield from stream_lines(stream, tally)

    def scan(self) -> tuple[str, int | None]:
        """Returns a sha256 of the content and the number of lines, None where that takes unpacking; not of a stream.

        Raises:
            UserError: the file cannot be read.
        """
        digest, breaks, last, packed = hashlib.sha256(), 0, b"", False
        try:
            with open(self.path, "rb") as file:
                while chunk := file.read(_CHUNK):
                    packed = packed or (not last and chunk.startswith(_GZIP_MAGIC))
                    digest.update(chunk)
                    breaks += chunk.count(b"\n")
                    last = chunk[-1:]
        except OSError as error:
            raise UserError(f"{self.path}: cannot be read ({error.strerror or one_line(error)})") from None
        return digest.hexdigest(), None if packed else breaks + (last not in (b"\n", b""))


def stream_lines(stream: BinaryIO, tally: Counter) -> Iterator[str]:
    """Yields the lines of a stream as `t2t.text.lines.read_lines` does those of a file that is not packed."""
    for number, raw in enumerate(stream):
        if number == 0:
            raw = raw.removeprefix(_UTF8_MARK)
        yield clean_line(raw.removesuffix(b"\n").removesuffix(b"\r") if raw.endswith(b"\n") else raw, tally)


def _is_regular(path: str) -> bool:
    try:
        mode = Path(path).stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path}: there is no such file; check the path") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or one_line(error)})") from None
    if stat.S_ISDIR(mode):
        raise UserError(f"{path}: it is a folder; give a file, or - for standard input")
    return stat.S_ISREG(mode)
