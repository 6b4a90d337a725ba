"""Lines: of files, packed files and streams; blocks of lines that together make up the files, cut at the same lines."""

import bz2
import gzip
import hashlib
import io
import lzma
import os
import random
import zipfile
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from t2t.files.line_blocks import cut_files, read_pairs
from t2t.files.lines import INVALID_UTF8, NUL_REMOVED, LineSource, pair_lines, read_lines, stream_lines
from tests.errors import refused
from tests.waiting import join_all, start_thread


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
    *((b"", []), (b"\n", [""]), (b"a\n\nb", ["a", "", "b"]), (b"a\n\n", ["a", ""])),
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
    pipe = Once(b"first\nsecond\n", most=6)
    assert next(stream_lines(io.BufferedReader(pipe), Counter(), "a stream")) == "first"
    assert pipe.taken == 6, "no line waits for the next"


def test_a_line_that_would_fill_the_memory_is_refused():
    long = b"a" * 100_000
    assert list(stream_lines(io.BytesIO(gzip.compress(long)), Counter(), "stream", 40_000)) == [long.decode()]
    for content in (gzip.compress(long), long):
        with refused("stream:", "30,000"):
            list(stream_lines(io.BytesIO(content), Counter(), "stream", 30_000))


PACKED = gzip.compress(bytes(range(256)) * 50, mtime=0)


@pytest.mark.parametrize(("content", "said"), [
    *((PACKED[:cut], "gzip") for cut in (-1, 30, 2)),
    (PACKED[:-8] + bytes([PACKED[-8] ^ 1]) + PACKED[-7:], "gzip"),  # the checksum
    ("a\nb\n".encode("utf-16"), "UTF-16"),
    (bz2.compress(b""), "bzip2"),
])  # fmt: skip
def test_damaged_packed_wide_and_missing_files_are_refused(tmp_path, content, said):
    with refused(tmp_path / "text", said):
        lines_of(write(tmp_path / "text", content))
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


def paired_lines(source, target, tally):
    return list(pair_lines(read_lines(source, tally), read_lines(target, tally), source, target))


def test_parallel_lines_keep_their_places_and_damage_is_repaired_and_counted_by_line(tmp_path):
    tally = Counter()
    source = write(tmp_path / "a", b"1\n\n3\xff\n")
    target = write(tmp_path / "b", b"eins\nzwei\ndrei\xff", packed=True)
    assert paired_lines(source, target, tally) == [("1", "eins"), ("", "zwei"), ("3\ufffd", "drei\ufffd")]
    assert tally == {INVALID_UTF8: 2}
    path = write(tmp_path / "text", b"a\xff\xfeb\nc\0d\0\n\0\xc3\nfine\n")
    assert lines_of(path) == (["a\ufffd\ufffdb", "cd", "\ufffd", "fine"], {INVALID_UTF8: 2, NUL_REMOVED: 2})


@pytest.mark.parametrize(("sources", "targets"), [(1200, 3), (3, 1200), (1, 0), (0, 1), (4, 3), (3, 4)])
def test_unequal_lengths_name_both_files_and_counts(tmp_path, sources, targets):
    source = write(tmp_path / "train.en", b"x\n" * sources)
    target = write(tmp_path / "train.de", b"y\n" * targets)
    with refused(source, f"{sources:,}", target, f"{targets:,}"):
        paired_lines(source, target, Counter())


# === Of a file or stream that an option names ===
DIRTY = "\ufeffone\r\ntwo\u2028still two\x85\x0b\r\n\nfo".encode() + b"\xffur\x00\n\rlast\r"
LINES = ["one", "two\u2028still two\x85\x0b", "", "fo\ufffdur", "\rlast\r"]


@pytest.mark.parametrize("packed", [False, True])
def test_standard_input(stdin, packed):
    stdin(gzip.compress(DIRTY) if packed else DIRTY)
    source = LineSource("-")
    assert source.is_stream
    assert str(source) == "standard input"
    tally = Counter()
    assert list(source.lines(tally)) == LINES
    assert tally == {INVALID_UTF8: 1, NUL_REMOVED: 1}
    stdin("a\n".encode("utf-16"))
    with refused("UTF-16"):
        list(source.lines(Counter()))


def test_a_named_pipe_is_read_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = start_thread(pipe.write_bytes, DIRTY)
    source = LineSource(str(pipe))
    assert source.is_stream
    assert list(source.lines(Counter())) == LINES
    join_all(writer)


@pytest.mark.parametrize(("content", "count"), [(b"", 0), (b"a", 1), (b"a\n", 1), (b"a\n\nb", 3), (b"\n", 1)])
def test_a_scan_counts_the_lines_that_are_read(tmp_path, content, count):
    source = LineSource(str(write(tmp_path / "in", content)))
    assert source.scan() == (hashlib.sha256(content).hexdigest(), count)
    assert len(list(source.lines(Counter()))) == count
    source = LineSource(str(write(tmp_path / "in.gz", DIRTY, packed=True)))  # which is read and not counted
    assert not source.is_stream
    assert list(source.lines(Counter())) == LINES
    assert source.scan()[1] is None


def test_files_that_are_none(tmp_path):
    dirty = write(tmp_path / "in", DIRTY)
    for path in (tmp_path / "missing", dirty / "below", tmp_path):
        with refused(path):
            LineSource(str(path))
    source = LineSource(str(dirty))
    dirty.unlink()
    with refused(dirty):
        source.scan()


# === Blocks ===
TEXTS = st.lists(st.text(st.sampled_from("ab é\r\0\ufeff"), max_size=12), min_size=1, max_size=40)
ONE_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
"""All examples write_lines the same files."""


def write_lines(path, lines, ended):
    path.write_bytes(("\n".join(lines) + "\n" * ended).encode())
    return path


def read_blocks(blocks):
    return [line for block in blocks for line in block.read(Counter())]


@given(TEXTS, st.booleans(), st.integers(1, 90), st.integers(1, 50))
@ONE_FOLDER
def test_blocks_together_are_the_file(tmp_path, lines, ended, most_bytes, buffer):
    path = write_lines(tmp_path / "file", lines, ended)
    blocks = [block for (block,) in cut_files([path], most_bytes, buffer_bytes=buffer)]
    assert read_blocks(blocks) == list(read_lines(path, Counter()))
    sizes = [(block.stop or path.stat().st_size) - block.start for block in blocks]
    assert all(most_bytes <= size < most_bytes + 40 for size in sizes[:-1])
    counts = [len(read_blocks([block])) for block in blocks]
    assert [block.first for block in blocks] == [1 + sum(counts[:number]) for number in range(len(blocks))]


@given(TEXTS, st.booleans(), st.booleans(), st.integers(1, 60))
@ONE_FOLDER
def test_two_files_are_cut_at_the_same_lines(tmp_path, lines, one_ended, other_ended, most_bytes):
    lines = [f"{number} {line}" for number, line in enumerate(lines)]
    one = write_lines(tmp_path / "one", lines, one_ended)
    other = write_lines(tmp_path / "other", [line.split()[0] for line in lines], other_ended)
    for files in ((one, other), (other, one)):
        pairs = [pair for blocks in cut_files(files, most_bytes) for pair in read_pairs(blocks, Counter())]
        assert len(pairs) == len(lines)
        assert all(left.split()[0] == right.split()[0] for left, right in pairs)


def test_blocks_of_so_many_lines_and_what_is_small_or_packed_is_one_and_not_counted(tmp_path):
    path = write_lines(tmp_path / "list", [str(number) for number in range(20)], True)
    blocks = [block for (block,) in cut_files([path], 1 << 20, most_lines=8)]
    assert [len(read_blocks([block])) for block in blocks] == [8, 8, 4]
    assert read_blocks(blocks) == [str(number) for number in range(20)]
    assert [block.first for block in blocks] == [1, 9, 17]
    assert len(cut_files([path], 1 << 20, most_lines=10)) == 2
    assert len(cut_files([path], 1, most_lines=20)) == 1
    small, packed = write_lines(tmp_path / "small", ["a"] * 50, True), tmp_path / "packed"
    packed.write_bytes(gzip.compress(b"a\n" * 50))
    for files, most_bytes in (([small], 100), ([packed], 1), ([small, packed], 1)):
        assert len(cut_files(files, most_bytes, buffer_bytes=None)) == 1  # a buffer of None cannot be read_blocks


def test_damage_is_repaired_and_counted_once_whatever_the_blocks_and_unequal_and_missing_files_are_named(tmp_path):
    one, other = (
        write_lines(tmp_path / "one", ["abc"] * 30, True),
        write_lines(tmp_path / "other", ["abcdef"] * 31, False),
    )
    with refused(one, 30, other, 31):
        cut_files([one, other], 20)
    with refused(tmp_path / "gone"):
        cut_files([tmp_path / "gone"], 10)
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbffirst\nb\xffd\r\n" * 20)
    whole, parts = Counter(), Counter()
    lines = list(read_lines(path, whole))
    assert [line for (block,) in cut_files([path], 30) for line in block.read(parts)] == lines
    assert parts == whole == {"invalid UTF-8 replaced": 20}
