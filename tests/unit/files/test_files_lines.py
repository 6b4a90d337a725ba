import bz2
import gzip
import io
import lzma
import random
import zipfile
from collections import Counter

import pytest

from t2t.files.line_blocks import cut_files
from t2t.files.lines import INVALID_UTF8, NUL_REMOVED, pair_lines, read_lines, stream_lines
from tests.errors import refused


def write(path, content: bytes, packed: bool = False):
    path.write_bytes(gzip.compress(content) if packed else content)
    return path


def lines_of(path):
    tally = Counter()
    return list(read_lines(path, tally)), dict(tally)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["text", "text.gz"])
def test_gzip_is_seen_from_the_content(tmp_path, name, packed):
    path = write(tmp_path / name, "eins\nzwei ä\n".encode(), packed)
    assert lines_of(path) == (["eins", "zwei ä"], {})


@pytest.mark.parametrize(("content", "lines"), [
    (b"", []),
    (b"\n", [""]),
    (b"a\n\nb", ["a", "", "b"]),
    (b"a\n\n", ["a", ""]),
    ("a\u2028b\u0085c\x0bd\x0ce\x1cf\rg\n".encode(), ["a\u2028b\u0085c\x0bd\x0ce\x1cf\rg"]),
    (b"a\r\nb\r\r\nc\r", ["a", "b\r", "c\r"]),
    (b" a \t\n", [" a \t"]),
    (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
    (b"\xef\xbb\xbf", [""]),
])  # fmt: skip
def test_where_lines_end(tmp_path, content, lines):
    assert lines_of(write(tmp_path / "text", content)) == (lines, {})


class Once(io.RawIOBase):
    """A fake pipe: returns a few bytes at a time and cannot seek."""

    def __init__(self, content, most=7):
        self._content, self._most = io.BytesIO(content), most
        self.taken = 0

    def readable(self):
        return True

    def readinto(self, target):
        found = self._content.read(min(self._most, len(target)))
        self.taken += len(found)
        target[: len(found)] = found
        return len(found)


def test_a_packed_stream_is_unpacked_by_its_first_bytes():
    rng = random.Random(5)
    lines = ["".join(rng.choices("abcdefgh äöü\u2028", k=rng.randint(0, 60))) for _ in range(3000)]
    halves = ["".join(line + "\n" for line in part).encode() for part in (lines[:1000], lines[1000:])]
    packed = b"".join(map(gzip.compress, halves))  # as `cat a.gz b.gz` gives them
    assert list(stream_lines(io.BufferedReader(Once(packed)), Counter(), "a stream")) == lines
    for few in (b"", b"\x1f", b"\x1f\n", b"\x1fb\n"):
        expected = few.decode().split("\n")[: 1 if few else 0]
        assert list(stream_lines(io.BufferedReader(Once(few)), Counter(), "a stream")) == expected
    with refused("stream:", "gzip"):
        list(stream_lines(io.BufferedReader(Once(packed[:-30])), Counter(), "a stream"))


def test_no_line_of_a_stream_waits_for_the_next():
    pipe = Once(b"first\nsecond\n", most=6)
    lines = stream_lines(io.BufferedReader(pipe), Counter(), "a stream")
    assert next(lines) == "first"
    assert pipe.taken == 6


def test_damage_is_repaired_and_counted_by_line(tmp_path):
    path = write(tmp_path / "text", b"a\xff\xfeb\nc\0d\0\n\0\xc3\nfine\n")
    assert lines_of(path) == (["a\ufffd\ufffdb", "cd", "\ufffd", "fine"], {INVALID_UTF8: 2, NUL_REMOVED: 2})


PACKED = gzip.compress(bytes(range(256)) * 50, mtime=0)


@pytest.mark.parametrize(("content", "said"), [
    *((PACKED[:cut], "gzip") for cut in (-1, 30, 2)),
    (PACKED[:-8] + bytes([PACKED[-8] ^ 1]) + PACKED[-7:], "gzip"),  # the checksum
    ("a\nb\n".encode("utf-16"), "UTF-16"),
    (bz2.compress(b""), "bzip2"),
])  # fmt: skip
def test_damaged_packed_and_wide_files_are_refused(tmp_path, content, said):
    with refused(tmp_path / "text", said):
        lines_of(write(tmp_path / "text", content))


def test_missing_files_and_folders_are_refused(tmp_path):
    for path in (tmp_path / "nothing", tmp_path):
        with refused(path):
            lines_of(path)


ZIPPED = io.BytesIO()
with zipfile.ZipFile(ZIPPED, "w") as archive:
    archive.writestr("text", "a\nb\n")
OTHERWISE_PACKED = {
    "xz": lzma.compress(b"a\nb\n"), "bzip2": bz2.compress(b"a\nb\n"), "zip": ZIPPED.getvalue(),
    "zstd": bytes.fromhex("28b52ffd0458210000610a620a"),  # RFC 8878, section 3.1.1: the magic number is little-endian
}  # fmt: skip


@pytest.mark.parametrize("kind", OTHERWISE_PACKED)
@pytest.mark.parametrize("packed", [False, True])
def test_other_compression_is_refused(tmp_path, kind, packed):
    path = write(tmp_path / "text", OTHERWISE_PACKED[kind], packed)
    for read in (lines_of, lambda path: cut_files([path], 1) and lines_of(path)):
        with refused(path, kind):
            read(path)


@pytest.mark.parametrize("text", ["BZh9 and others", "PK", "xz", "(\u00b5/", "a PK\x03\x04"])
def test_texts_that_look_like_packed_ones_are_read(tmp_path, text):
    assert lines_of(write(tmp_path / "text", text.encode())) == ([text], {})


def read_pairs(source, target, tally):
    return list(pair_lines(read_lines(source, tally), read_lines(target, tally), source, target))


def test_parallel_lines_keep_their_places(tmp_path):
    tally = Counter()
    source = write(tmp_path / "a", b"1\n\n3\xff\n")
    target = write(tmp_path / "b", b"eins\nzwei\ndrei\xff", packed=True)
    assert read_pairs(source, target, tally) == [("1", "eins"), ("", "zwei"), ("3\ufffd", "drei\ufffd")]
    assert tally == {INVALID_UTF8: 2}


@pytest.mark.parametrize(("sources", "targets"), [(1200, 3), (3, 1200), (1, 0), (0, 1), (4, 3), (3, 4)])
def test_unequal_lengths_name_both_files_and_counts(tmp_path, sources, targets):
    source = write(tmp_path / "train.en", b"x\n" * sources)
    target = write(tmp_path / "train.de", b"y\n" * targets)
    with refused(source, f"{sources:,}", target, f"{targets:,}"):
        read_pairs(source, target, Counter())
