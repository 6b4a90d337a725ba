"""Shards of a file consist of whole windows, and every line is in exactly one shard."""

import itertools
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t.inference.files.shards import Shard, check_sharded, parse_shard
from tests.errors import refused


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
    with refused(f"'{text[:40]}'", "K/N", "0/100") as raised:
        parse_shard(text)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize("text", ["3/3", "0/0", "5/2", "0/100000"])
def test_there_are_no_other_shards(text):
    with refused(text, "K/N", "0/100"):
        parse_shard(text)


@pytest.mark.parametrize(
    ("source", "target"), [("-", "out"), ("pipe", "out"), ("in", "-"), ("in", "/dev/null"), ("in", "gone/out")]
)
def test_streams_are_not_divided(tmp_path, source, target):
    (tmp_path / "in").write_text("a\n")
    os.mkfifo(tmp_path / "pipe")
    paths = [name if name == "-" else str(tmp_path / name) for name in (source, target)]
    with refused(*[name for name in paths if name not in ("-", f"{tmp_path}/in", f"{tmp_path}/out")]):
        check_sharded(*paths)
