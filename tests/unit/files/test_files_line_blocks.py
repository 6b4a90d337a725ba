"""Blocks of lines: together they make up the files, and all sides are cut at the same lines."""

import gzip
from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from t2t.files.line_blocks import cut_files, read_pairs
from t2t.files.lines import read_lines
from tests.errors import refused

TEXTS = st.lists(st.text(st.sampled_from("ab é\r\0\ufeff"), max_size=12), min_size=1, max_size=40)
ONE_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
"""All examples write the same files."""


def write(path, lines, ended):
    path.write_bytes(("\n".join(lines) + "\n" * ended).encode())
    return path


def read(blocks):
    return [line for block in blocks for line in block.read(Counter())]


@given(TEXTS, st.booleans(), st.integers(1, 90), st.integers(1, 50))
@ONE_FOLDER
def test_blocks_together_are_the_file(tmp_path, lines, ended, most_bytes, buffer):
    path = write(tmp_path / "file", lines, ended)
    blocks = [block for (block,) in cut_files([path], most_bytes, buffer_bytes=buffer)]
    assert read(blocks) == list(read_lines(path, Counter()))
    sizes = [(block.stop or path.stat().st_size) - block.start for block in blocks]
    assert all(most_bytes <= size < most_bytes + 40 for size in sizes[:-1])
    counts = [len(read([block])) for block in blocks]
    assert [block.first for block in blocks] == [1 + sum(counts[:number]) for number in range(len(blocks))]


@given(TEXTS, st.booleans(), st.booleans(), st.integers(1, 60))
@ONE_FOLDER
def test_two_files_are_cut_at_the_same_lines(tmp_path, lines, one_ended, other_ended, most_bytes):
    lines = [f"{number} {line}" for number, line in enumerate(lines)]
    one = write(tmp_path / "one", lines, one_ended)
    other = write(tmp_path / "other", [line.split()[0] for line in lines], other_ended)
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


def test_what_is_small_or_packed_is_one_block_and_not_counted(tmp_path):
    small, packed = write(tmp_path / "small", ["a"] * 50, True), tmp_path / "packed"
    packed.write_bytes(gzip.compress(b"a\n" * 50))
    for files, most_bytes in (([small], 100), ([packed], 1), ([small, packed], 1)):
        assert len(cut_files(files, most_bytes, buffer_bytes=None)) == 1  # a buffer of None cannot be read


def test_files_of_unequal_lengths_and_missing_ones_are_named_when_they_are_cut(tmp_path):
    one, other = write(tmp_path / "one", ["abc"] * 30, True), write(tmp_path / "other", ["abcdef"] * 31, False)
    with refused(one, 30, other, 31):
        cut_files([one, other], 20)
    with refused(tmp_path / "gone"):
        cut_files([tmp_path / "gone"], 10)


def test_damage_is_repaired_and_counted_once_whatever_the_blocks(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbffirst\nb\xffd\r\n" * 20)
    whole, parts = Counter(), Counter()
    lines = list(read_lines(path, whole))
    assert [line for (block,) in cut_files([path], 30) for line in block.read(parts)] == lines
    assert parts == whole == {"invalid UTF-8 replaced": 20}
