"""Shards of a file consist of whole windows, and every line is in exactly one shard."""

import itertools
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t.errors import UserError
from t2t.inference.files.shards import Shard, check_sharded, parse_shard


@given(total=st.integers(0, 500), window=st.integers(1, 40), count=st.integers(1, 60))
def test_every_line_is_in_one_shard_and_no_window_is_cut(total, window, count):
    ranges = [Shard(number, count).lines(total, window) for number in range(count)]
    assert list(itertools.chain(*ranges)) == list(range(total))
    windows = [-(-len(lines) // window) for lines in ranges]
    assert max(windows) - min(windows) <= 1
    assert all(lines.start % window == 0 or lines.start == total for lines in ranges)


def test_a_shard_is_written_as_a_fraction():
    assert parse_shard("3/100") == Shard(3, 100)
    assert str(Shard(3, 100)) == "3/100"


@pytest.mark.parametrize("text", ["", "3", "3/", "/3", "a/b", "-1/3", "1/3/5", "1.0/2", "\u0663/4", "9" * 5000 + "/3"])
def test_what_is_written_otherwise_is_refused(text):
    with pytest.raises(
        UserError, match=r"^shard '.{0,40}': it is written K/N; give e.g. 0/100 for the first of a hund"
    ):
        parse_shard(text)


@pytest.mark.parametrize("text", ["3/3", "0/0", "5/2", "0/100000"])
def test_there_are_no_other_shards(text):
    expected = rf"^shard {text}: K/N is shard K of N, from 0/N to N-1/N, and N at most 99,999; give e.g. 0/100 for"
    with pytest.raises(UserError, match=expected):
        parse_shard(text)


def test_streams_are_not_divided(tmp_path):
    (tmp_path / "in").write_text("a\n")
    os.mkfifo(tmp_path / "pipe")
    for source, name in (("-", "standard input"), (str(tmp_path / "pipe"), "pipe")):
        with pytest.raises(UserError, match=rf"{name}: shards are of a file, and this can be read only once; save it"):
            check_sharded(source, str(tmp_path / "out"))
    for target in ("-", "/dev/null"):
        with pytest.raises(UserError, match=rf"{target}: parts go next to the output, which is no file; name one"):
            check_sharded(str(tmp_path / "in"), target)
    with pytest.raises(UserError, match=r"cannot write .*gone/out: there is no folder .*gone; make it or write"):
        check_sharded(str(tmp_path / "in"), str(tmp_path / "gone/out"))
