"""Lines of text files, compressed or not, and of streams; damage is repaired and counted."""

import contextlib
import gzip
import hashlib
import io
import itertools
import re
import stat
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from t2t.errors import UserError, one_line
from t2t.files.atomic import remedy_of

INVALID_UTF8 = "invalid UTF-8 replaced"
NUL_REMOVED = "NUL characters removed"

GZIP_MAGIC = b"\x1f\x8b"
"""First bytes of gzip content."""

_BLOCK = 2**16
"""Bytes that are read at a time, before the rest of the last line."""
_LONGEST_LINE = 1 << 30
"""Most bytes of a line: a small gzip file can unpack to a line that does not fit into memory."""

_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_OTHER_COMPRESSION = re.compile(
    rb"(?P<xz>\xfd7zXZ\0)|(?P<bzip2>BZh[1-9](?:1AY&SY|\x17rE8P\x90))|(?P<zstd>\(\xb5/\xfd)|(?P<zip>PK\x03\x04)"
)
"""First bytes of files, by the name of their compression."""
_BREAKS = re.compile(r"[\n\r]")
_SURROGATES = re.compile("[\ud800-\udfff]")


def read_lines(path: Path | str, tally: Counter[str], start: int = 0, stop: int | None = None) -> Iterator[str]:
    r"""Yields the lines of a file, with a block of them in memory at a time.

    Lines end only at `\n` (not at `\r`, U+0085 or U+2028), so that the two sides of a corpus stay aligned, and line
    numbers agree with other tools. Invalid UTF-8 is replaced by U+FFFD and NULs are removed, both counted. The `\r` of
    a `\r\n` and a byte-order mark at the start of the file are removed and not counted: they are conventions, not
    damage.

    Args:
        path: the file; gzip is detected from its content.
        tally: counts of repaired lines are added, under the names above.
        start: byte of a plain file at which to start, where a line begins.
        stop: byte at which to stop, where another line begins; None for the end of the file.

    Raises:
        UserError: the file is missing, unreadable, broken gzip, UTF-16 or compressed otherwise; the message names it.
    """
    with contextlib.ExitStack() as stack:
        with errors_of_reading(path):
            file = stack.enter_context(Path(path).open("rb"))
        if not start and stop is None:
            yield from stream_lines(file, tally, path)
            return
        with errors_of_reading(path):
            for block in _part(file, start, stop):
                yield from _lines_of(block if start else _strip_mark(block, path), tally)
                start += len(block)


def _part(file: BinaryIO, start: int, stop: int | None) -> Iterator[bytes]:
    """Yields blocks of whole lines of a part of a plain file."""
    file.seek(start)
    while stop is None or start < stop:
        block = file.read(_BLOCK if stop is None else min(_BLOCK, stop - start))
        if not block:
            return
        if not block.endswith(b"\n"):
            block += file.readline()
        start += len(block)
        yield block


def stream_lines(
    stream: BinaryIO, tally: Counter[str], name: Path | str, longest: int = _LONGEST_LINE
) -> Iterator[str]:
    """Yields the lines of a stream that can be read only once, like `read_lines`; errors call it `name`.

    A line of more than about `longest` bytes is an error.
    """
    with errors_of_reading(name):
        content = cast(io.BufferedIOBase, stream)  # it has `read1`, which `BinaryIO` does not name
        for number, block in enumerate(_unpacked(content, longest)):
            yield from _lines_of(block if number else _strip_mark(block, name), tally)


def lines_of_bytes(content: bytes, tally: Counter[str], name: Path | str, most: int) -> tuple[list[str], bool]:
    r"""Returns the lines of a text in memory, like `read_lines`, and whether the last one ends with `\n`.

    An empty text has one line.

    Args:
        content: the text, plain or gzip.
        tally: see `read_lines`.
        name: of the text, for messages.
        most: most bytes that it may unpack to.

    Raises:
        UserError: as `read_lines`, or it unpacks to more.
    """
    with errors_of_reading(name):
        content = _strip_mark(gunzipped(content, name, most), name)
    return list(_lines_of(content, tally)), content.endswith(b"\n")


def _lines_of(block: bytes, tally: Counter[str]) -> Iterable[str]:
    """Returns the lines of a block of whole lines; splits it in one step if there is nothing to repair."""
    with contextlib.suppress(UnicodeDecodeError):
        text = block.decode("utf-8")
        if "\0" not in text and "\r" not in text:
            return text.removesuffix("\n").split("\n")
    lines = block.removesuffix(b"\n").split(b"\n")
    ended = len(lines) if block.endswith(b"\n") else len(lines) - 1
    return (clean_line(raw.removesuffix(b"\r") if at < ended else raw, tally) for at, raw in enumerate(lines))


def clean_line(raw: bytes, tally: Counter[str]) -> str:
    """Decodes the bytes of a line; replaces invalid UTF-8 by U+FFFD and removes NULs, counting each once per line."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("utf-8", errors="replace")
        tally[INVALID_UTF8] += 1
    if "\0" in text:
        text = text.replace("\0", "")
        tally[NUL_REMOVED] += 1
    return text


def on_one_line(text: str) -> str:
    r"""Makes a text fit on one line of a file: replaces each `\n` and `\r` by a space."""
    return _BREAKS.sub(" ", text)


def without_surrogates(text: str) -> str:
    """Makes a text encodable: replaces each lone surrogate, which UTF-8 cannot represent, by U+FFFD."""
    return _SURROGATES.sub("\ufffd", text)


def pair_lines(
    sources: Iterator[Any], targets: Iterator[Any], source_path: Path | str, target_path: Path | str, before: int = 0
) -> Iterator[tuple[Any, Any]]:
    """Yields pairs of items from two files; `before` lines of each have been skipped, for the message.

    Raises:
        UserError: one file ends before the other.
    """
    for number, (source, target) in enumerate(itertools.zip_longest(sources, targets), start=before + 1):
        if source is None or target is None:
            pairs = ((source, sources), (target, targets))
            counts = [number - (line is None) + sum(1 for _ in remaining) for line, remaining in pairs]
            raise unequal_lengths(source_path, counts[0], target_path, counts[1])
        yield source, target


def unequal_lengths(one: Path | str, lines: int, other: Path | str, lines_of_other: int) -> UserError:
    """Returns an error about two parallel files with different numbers of lines."""
    return UserError(
        f"{one} has {lines:,} lines and {other} has {lines_of_other:,}; line n of one belongs to line n of the other",
        "give files of equal length",
    )


def split_columns(line: str, names: Sequence[str], file: str, number: int) -> list[str]:
    """Splits a line at TABs into one column for each name.

    Args:
        line: without its end.
        names: of the columns, for the message.
        file: its name, for the message.
        number: of the line, from 1, for the message.

    Raises:
        UserError: there are too few or too many columns.
    """
    found = line.split("\t")
    if len(found) != len(names):
        raise UserError(
            f"{file}: line {number:,} has {len(found)} column{'s' * (len(found) != 1)}; a line needs {len(names)}, "
            f"{' TAB '.join(names)}",
            "correct the file",
        )
    return found


def _unpacked(stream: io.BufferedIOBase, longest: int) -> Iterator[bytes]:
    """Yields blocks of whole lines of a stream; unpacks gzip.

    It never waits beyond the end of a line, so that each line typed into a pipe is processed at once.
    """
    first = _block(stream, longest)
    if first.startswith(GZIP_MAGIC):
        rejoined = _PrefixedStream(first, stream)
        packed = gzip.GzipFile(fileobj=rejoined, mode="rb")  # type: ignore[call-overload]  # it is only read from
        stream = io.BufferedReader(packed)
        first = _block(stream, longest)
    return itertools.takewhile(bool, itertools.chain([first], iter(lambda: _block(stream, longest), b"")))


def _block(stream: io.BufferedIOBase, longest: int) -> bytes:
    block = stream.read1(_BLOCK)
    if block.endswith(b"\n") or not block:
        return block
    rest = stream.readline(longest)
    if len(rest) == longest and not rest.endswith(b"\n"):
        raise OSError(f"a line in it has more than {longest:,} bytes")
    return block + rest


class _PrefixedStream:
    """A stream with some bytes that were read from it before put back in front."""

    def __init__(self, first: bytes, rest: io.BufferedIOBase):
        self._first, self._rest = first, rest

    def read(self, size: int) -> bytes:
        taken, self._first = self._first[:size], self._first[size:]
        return taken or self._rest.read(size)


def gunzipped(content: bytes, name: Path | str, most: int) -> bytes:
    """Returns content, unpacked if it is gzip.

    Args:
        content: of a file or a request.
        name: of it, for messages.
        most: most bytes that it may unpack to; little content can unpack to more than fits into memory.

    Raises:
        UserError: it unpacks to more.
        EOFError, OSError, zlib.error: it is damaged.
    """
    if not content.startswith(GZIP_MAGIC):
        return content
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        unpacked = file.read(most + 1)
    if len(unpacked) > most:
        raise UserError(f"{name}: unpacks to more than {most:,} bytes, the most that is read", "give less at once")
    return unpacked


@contextlib.contextmanager
def errors_of_reading(name: Path | str) -> Iterator[None]:
    """Turns the errors of reading a file, packed or not, into one line that names it.

    Raises:
        UserError: in place of any of them.
    """
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{name}: there is no such file", "check the path") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(
            f"{name}: its gzip content is damaged or cut short ({one_line(error)})", "copy or download it again"
        ) from None
    except OSError as error:
        cure = remedy_of(error, "check the path")
        raise UserError(f"{name}: cannot be read ({error.strerror or one_line(error)})", cure) from None


def check_start(first: bytes, name: Path | str) -> None:
    """Raises UserError if the first bytes of a file, unpacked if it is gzip, are those of no text in UTF-8."""
    if first.startswith(_UTF16_MARKS):
        raise UserError(f"{name}: it is UTF-16", "text must be UTF-8: convert it, e.g. `iconv -f UTF-16 -t UTF-8`")
    if packed := _OTHER_COMPRESSION.match(first):
        raise UserError(
            f"{name}: it is compressed with {packed.lastgroup}",
            "text must be plain or gzip: decompress it, or use gzip",
        )


def _strip_mark(first: bytes, name: Path | str) -> bytes:
    check_start(first, name)
    return first.removeprefix(_UTF8_MARK)


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
        raise UserError(f"{path}: it is a folder", "give a file, or - for standard input")
    return stat.S_ISREG(mode)
