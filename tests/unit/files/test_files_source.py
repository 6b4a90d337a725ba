r"""Unmodified lines: split at `\n`, from files, compressed files and streams."""

import gzip
import hashlib
import os
from collections import Counter

import pytest

from t2t.files.lines import INVALID_UTF8, NUL_REMOVED
from t2t.files.source import LineSource
from tests.errors import refused
from tests.waiting import join_all, start_thread

DIRTY = "\ufeffone\r\ntwo\u2028still two\x85\x0b\r\n\nfo".encode() + b"\xffur\x00\n\rlast\r"
LINES = ["one", "two\u2028still two\x85\x0b", "", "fo\ufffdur", "\rlast\r"]


@pytest.fixture
def dirty(tmp_path):
    path = tmp_path / "in"
    path.write_bytes(DIRTY)
    return path


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
    path = tmp_path / "in"
    path.write_bytes(content)
    source = LineSource(str(path))
    assert source.scan() == (hashlib.sha256(content).hexdigest(), count)
    assert len(list(source.lines(Counter()))) == count


def test_a_packed_file_is_read_and_not_counted(tmp_path):
    path = tmp_path / "in.gz"
    path.write_bytes(gzip.compress(DIRTY))
    source = LineSource(str(path))
    assert not source.is_stream
    assert list(source.lines(Counter())) == LINES
    assert source.scan()[1] is None


def test_files_that_are_none(tmp_path, dirty):
    for path in (tmp_path / "missing", dirty / "below", tmp_path):
        with refused(path):
            LineSource(str(path))
    source = LineSource(str(dirty))
    dirty.unlink()
    with refused(dirty):
        source.scan()
