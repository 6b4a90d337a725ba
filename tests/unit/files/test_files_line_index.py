"""A line index: any range of lines is read correctly without reading the lines before it."""

import gzip
import hashlib
import itertools
import os
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from t2t.files import trust
from t2t.files.line_index import index_lines, kept_index
from t2t.files.lines import read_lines
from tests.errors import refused
from tests.nasty_lines import nasty_lines
from tests.waiting import LIMIT_S, join_all, start_thread


# === Ranges ===
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    content=st.lists(nasty_lines() | st.binary(max_size=30), max_size=30), ended=st.booleans(), packed=st.booleans(),
    chunk=st.integers(1, 40), most=st.integers(2, 6), data=st.data(),
)  # fmt: skip
def test_ranges_are_those_of_the_whole_file(tmp_path, content, ended, packed, chunk, most, data):
    raw = b"\n".join(content) + (b"\n" if ended else b"")
    if raw[:2] in (b"\x1f\x8b", b"\xff\xfe", b"\xfe\xff"):  # said to be gzip or UTF-16
        raw = b" " + raw
    path = tmp_path / "text"
    path.write_bytes(gzip.compress(raw) if packed else raw)
    index = index_lines(path, chunk, most)
    whole = list(read_lines(path, Counter()))
    assert index.lines == len(whole)
    assert index.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert len(index.places) <= most
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    tally, tally_of_whole = Counter(), Counter()
    read = [
        line
        for start, stop in itertools.pairwise([0, *cuts, len(whole)])
        for line in index.read(path, range(start, stop), tally)
    ]
    assert read == whole
    list(read_lines(path, tally_of_whole))
    assert tally == tally_of_whole, "each line is repaired and counted in one range"


def bytes_read():
    """Returns how many bytes this process has read from files so far."""
    return int(Path("/proc/self/io").read_text().split()[1])


def test_a_range_is_read_without_what_is_before_it(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"abc\ndefgh\nij\n" + b"k" * 30 + b"\nlm\nno")
    index = index_lines(path, chunk_bytes=10)
    assert (index.lines, index.places) == (6, [(0, 0), (3, 13), (4, 44)]), "lines, and bytes where they begin"
    path.write_bytes(b"".join(b"%079d\n" % number for number in range(100_000)))  # 8 MB
    index, before = index_lines(path), bytes_read()
    assert list(index.read(path, range(99_000, 99_002), Counter())) == [f"{99_000:079}", f"{99_001:079}"]
    assert 0 < bytes_read() - before < 2 << 20, "a megabyte and a block at most"


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_utf16_and_missing_files_are_refused(tmp_path, pack):
    (tmp_path / "text").write_bytes(pack("a\nb\n".encode("utf-16")))
    with refused(tmp_path / "text", "UTF-16"):
        index_lines(tmp_path / "text")
    with refused(tmp_path / "gone"):
        kept_index(tmp_path / "gone", tmp_path / "index")


# === What is kept ===
@pytest.fixture
def settled(monkeypatch):
    """Files count as settled immediately, so that tests need not wait."""
    monkeypatch.setattr(trust, "_SETTLED_NS", -(10**18))


@pytest.fixture
def times_read(caplog):
    """Returns a function that tells how often the log says that a file was read in full."""
    caplog.set_level("INFO", "t2t")
    return lambda path: sum(path in record.args for record in caplog.records)


def test_a_file_is_read_once_until_it_changes(tmp_path, settled, times_read):
    path, kept = tmp_path / "text", tmp_path / "index.json"
    path.write_bytes(b"a\nb\n")
    first = kept_index(path, kept)
    assert kept_index(path, kept) == first == index_lines(path)
    assert times_read(path) == 1
    path.write_bytes(b"a\nb\nc\n")
    assert kept_index(path, kept).lines == 3
    content = kept.read_bytes()
    kept.write_bytes(content.replace(b'"lines": 3', b'"lines": 4'))
    assert kept_index(path, kept).lines == 3, "a damaged index is made again"
    assert times_read(path) == 3
    assert sorted(os.listdir(tmp_path)) == ["index.json", "text"]


def test_the_index_of_a_file_that_was_just_written_is_not_kept(tmp_path, times_read):
    """A change within the same step of the file system's clock would give it the same times."""
    path = tmp_path / "text"
    path.write_bytes(b"a\nb\n")
    later = time.time_ns() + 10**15
    os.utime(path, ns=(later, later))
    for _ in range(2):
        assert kept_index(path, tmp_path / "index.json").lines == 2
    assert times_read(path) == 2
    assert os.listdir(tmp_path) == ["text"]


def test_of_many_at_once_one_reads_the_file_and_the_others_wait(tmp_path, settled, times_read):
    path, kept, found = tmp_path / "text", tmp_path / "index.json", []
    path.write_bytes(b"a\n" * 1000)
    gate = threading.Barrier(5, timeout=LIMIT_S)

    def read():
        gate.wait()
        found.append(kept_index(path, kept))

    join_all(*(start_thread(read) for _ in range(5)))
    assert [index.lines for index in found] == [1000] * 5
    assert times_read(path) == 1
