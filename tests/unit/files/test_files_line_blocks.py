"""Blocks of lines: together they make up the files, and all sides are cut at the same lines."""

import gzip
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t.errors import UserError
from t2t.files import line_blocks
from t2t.files.line_blocks import cut_files, read_pairs
from t2t.files.lines import read_lines

TEXTS = st.lists(st.text(st.sampled_from("ab é\r\0\ufeff"), max_size=12), min_size=1, max_size=40)


def write(path, lines, ended):
    path.write_bytes(("\n".join(lines) + "\n" * ended).encode())
    return path


def read(blocks):
    return [line for block in blocks for line in block.read(Counter())]


@given(TEXTS, st.booleans(), st.integers(1, 90), st.integers(1, 50))
def test_blocks_together_are_the_file(tmp_path_factory, lines, ended, most_bytes, buffer):
    path = write(tmp_path_factory.mktemp("text") / "file", lines, ended)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_blocks, "_BUFFER", buffer)
        blocks = [block for (block,) in cut_files([path], most_bytes)]
    assert read(blocks) == list(read_lines(path, Counter()))
    sizes = [(block.stop or path.stat().st_size) - block.start for block in blocks]
    assert all(most_bytes <= size < most_bytes + 40 for size in sizes[:-1])
    counts = [len(read([block])) for block in blocks]
    assert [block.first for block in blocks] == [1 + sum(counts[:number]) for number in range(len(blocks))]


@given(TEXTS, st.booleans(), st.booleans(), st.integers(1, 60))
def test_two_files_are_cut_at_the_same_lines(tmp_path_factory, lines, one_ended, other_ended, most_bytes):
    folder = tmp_path_factory.mktemp("text")
    lines = [f"{number} {line}" for number, line in enumerate(lines)]
    one = write(folder / "one", lines, one_ended)
    other = write(folder / "other", [line.split()[0] for line in lines], other_ended)
    for files in ((one, other), (other, one)):
        pairs = [pair for blocks in cut_files(files, most_bytes) for pair in read_pairs(blocks, Counter())]
        assert len(pairs) == len(lines)
        assert all(left.split()[0] == right.split()[0] for left, right in pairs)


def test_blocks_of_so_many_lines(tmp_path):
    path = write(tmp_path / "list", [str(number) for number in range(20)], True)
    blocks = [block for (block,) in cut_files([path], 1 << 20, most_lines=8)]
    assert [read([block]) for block in blocks] == [
        [str(number) for number in part] for part in (range(8), range(8, 16), range(16, 20))
    ]
    assert [block.first for block in blocks] == [1, 9, 17]
    assert len(cut_files([path], 1 << 20, most_lines=10)) == 2
    assert len(cut_files([path], 1, most_lines=20)) == 1


def test_what_is_small_or_packed_is_one_block_and_not_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(line_blocks, "_buffers", None)
    small, packed = write(tmp_path / "small", ["a"] * 50, True), tmp_path / "packed"
    packed.write_bytes(gzip.compress(b"a\n" * 50))
    assert len(cut_files([small], 100)) == len(cut_files([packed], 1)) == len(cut_files([small, packed], 1)) == 1


def test_files_of_unequal_lengths_are_named_when_they_are_cut(tmp_path):
    one, other = write(tmp_path / "one", ["abc"] * 30, True), write(tmp_path / "other", ["abcdef"] * 31, False)
    with pytest.raises(UserError) as raised:
        cut_files([one, other], 20)
    assert str(raised.value) == (
        f"{one} has 30 lines and {other} has 31; line n of one belongs to line n of the other; give files of "
        f"equal length"
    )


def test_damage_is_repaired_and_counted_once_whatever_the_blocks(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbffirst\nb\xffd\r\n" * 20)
    whole, parts = Counter(), Counter()
    lines = list(read_lines(path, whole))
    assert [line for (block,) in cut_files([path], 30) for line in block.read(parts)] == lines
    assert parts == whole == {"invalid UTF-8 replaced": 20}


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"gone: there is no such file; check the path"):
        cut_files([tmp_path / "gone"], 10)
