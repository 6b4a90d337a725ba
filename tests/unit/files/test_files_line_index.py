"""A line index: any range of lines is read correctly without reading the lines before it."""

import contextlib
import gzip
import hashlib
import itertools
import os
import threading
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from t2t.errors import UserError
from t2t.files import file_marks, line_index, lines
from t2t.files.atomic import exclusive_lock, lock_beside
from t2t.files.line_index import index_lines, kept_index
from t2t.files.lines import read_lines
from tests.nasty_lines import nasty_lines


@pytest.fixture
def settled(monkeypatch):
    """Files count as settled immediately, so that tests need not wait."""
    monkeypatch.setattr(file_marks, "_SETTLED_NS", -(10**18))


# === Ranges ===


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
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
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(line_index, "_CHUNK", chunk)
        patched.setattr(line_index, "_MOST_PLACES", most)
        index = index_lines(path)
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


def test_places_are_bytes_where_lines_begin(tmp_path, monkeypatch):
    monkeypatch.setattr(line_index, "_CHUNK", 10)
    path = tmp_path / "text"
    path.write_bytes(b"abc\ndefgh\nij\n" + b"k" * 30 + b"\nlm\nno")
    index = index_lines(path)
    assert index.lines == 6
    assert index.places == [(0, 0), (3, 13), (4, 44)]


def test_a_range_is_read_without_what_is_before_it(tmp_path, monkeypatch):
    path = tmp_path / "text"
    path.write_bytes(b"".join(b"%07d\n" % number for number in range(1 << 20)))  # 8 MB
    index, read, part = index_lines(path), [], lines._part

    def counted(file, start, stop):
        for block in part(file, start, stop):
            read.append(len(block))
            yield block

    monkeypatch.setattr(lines, "_part", counted)
    assert list(index.read(path, range(1_000_000, 1_000_002), Counter())) == ["1000000", "1000001"]
    assert 0 < sum(read) < 2 << 20, "a megabyte and a block at most"


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_utf16_and_missing_files_are_refused_in_a_line(tmp_path, pack):
    (tmp_path / "text").write_bytes(pack("a\nb\n".encode("utf-16")))
    with pytest.raises(UserError, match=r"text: the file is UTF-16; text must be UTF-8: convert it"):
        index_lines(tmp_path / "text")
    with pytest.raises(UserError, match=r"gone: there is no such file; check the path"):
        kept_index(tmp_path / "gone", tmp_path / "index")


# === What is kept ===


@pytest.fixture
def counted(monkeypatch):
    """A list that collects the files that are read in full."""
    paths, original = [], line_index.index_lines
    monkeypatch.setattr(line_index, "index_lines", lambda path: paths.append(path) or original(path))
    return paths


def test_a_file_is_read_through_once_until_it_changes(tmp_path, settled, counted):
    path, kept = tmp_path / "text", tmp_path / "index.json"
    path.write_bytes(b"a\nb\n")
    first = kept_index(path, kept)
    assert kept_index(path, kept) == first == index_lines(path)
    assert len(counted) == 1
    path.write_bytes(b"a\nb\nc\n")
    assert kept_index(path, kept).lines == 3
    content = kept.read_bytes()
    kept.write_bytes(content.replace(b'"lines": 3', b'"lines": 4'))
    assert kept_index(path, kept).lines == 3, "a damaged index is made again"
    assert len(counted) == 3
    assert sorted(os.listdir(tmp_path)) == ["index.json", "text"]


def test_the_index_of_a_file_that_was_just_written_is_not_kept(tmp_path, counted, monkeypatch):
    """A change within the same step of the file system's clock would give it the same times."""
    monkeypatch.setattr(file_marks, "_SETTLED_NS", 10**18)
    (tmp_path / "text").write_bytes(b"a\nb\n")
    for _ in range(2):
        assert kept_index(tmp_path / "text", tmp_path / "index.json").lines == 2
    assert len(counted) == 2
    assert os.listdir(tmp_path) == ["text"]


def test_of_several_processes_one_reads_the_file_and_the_others_wait(tmp_path, settled, counted, monkeypatch):
    path, kept = tmp_path / "text", tmp_path / "index.json"
    path.write_bytes(b"a\nb\n")
    with contextlib.ExitStack() as other:
        other.enter_context(exclusive_lock(lock_beside(kept)))

        def wait(seconds):
            line_index._make(path, kept)
            other.close()

        monkeypatch.setattr(line_index.time, "sleep", wait)
        assert kept_index(path, kept).lines == 2
    assert len(counted) == 1, "by the other"


def test_many_at_once_get_the_same(tmp_path, settled):
    path, kept, found = tmp_path / "text", tmp_path / "index.json", []
    path.write_bytes(b"a\n" * 1000)
    threads = [threading.Thread(target=lambda: found.append(kept_index(path, kept))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [index.lines for index in found] == [1000] * 5
