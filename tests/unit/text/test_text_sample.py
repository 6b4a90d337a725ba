from hypothesis import given, settings
from hypothesis import strategies as st

from t2t.text.sample import SampleSize, draw_sample, merge_samples


def sample(lines, max_bytes):
    return draw_sample(iter(lines), max_bytes).lines


@given(st.lists(st.text(max_size=9)), st.integers(1, 200))
def test_the_sample_is_within_the_budget_in_order_and_not_empty(lines, budget):
    positions = [f"{i}:{line}" for i, line in enumerate(lines)]
    kept, size = sample(positions, budget), sum(len(line.encode()) for line in positions)
    assert sum(len(line.encode()) for line in kept) <= budget or len(kept) == 1
    assert [line for line in positions if line in set(kept)] == kept == sample(positions, budget)
    assert bool(kept) == bool(lines)
    assert sample(positions, max(1, size)) == positions, "everything is kept where it fits"


def test_one_line_of_each_block_is_kept_of_either_side():
    numbers = [int(line) for line in sample([f"{i:06d}" for i in range(100_000)], 6000)]
    assert 500 <= len(numbers) <= 1000
    block = 1
    while 100_000 / block > 1000:
        block *= 2
    assert [number // block for number in numbers] == list(range(len(numbers)))
    assert len(numbers) in (100_000 // block, 100_000 // block + 1)
    kept = sample([side for _ in range(50_000) for side in ("de", "en")], 4000)
    for side in ("de", "en"):
        assert 0.4 < kept.count(side) / len(kept) < 0.6


def test_the_size_says_how_much_of_how_much():
    drawn = draw_sample((f"{i:06d}" for i in range(100_000)), 6000)
    size, kept = drawn.size(), len(drawn.lines)
    assert (size.lines, size.of_lines, size.bytes) == (kept, 100_000, 6 * kept)
    assert size.lines * size.block >= 100_000 > (size.lines - 1) * size.block
    assert str(size) == f"{kept} of 100,000 lines (0.0 MB), one of every {size.block}"
    assert str(draw_sample(["ä" * 500_000, "b"], 2_000_000).size()) == "all 2 lines (1.0 MB)"
    size = SampleSize(lines=40, bytes=900, of_lines=80, block=2)
    assert size.of_more(0) == size
    assert str(size.of_more(720)) == "40 of 800 lines (0.0 MB), one of every 20", "lines that were not read count"


# === Samples of parts ===
def drawn(*parts, max_bytes):
    return [draw_sample(iter(part), max_bytes) for part in parts]


def numbered(start, stop):
    return [f"{i:06d}" for i in range(start, stop)]


@settings(max_examples=40)
@given(st.lists(st.integers(0, 400), max_size=6), st.integers(6, 1500), st.integers(6, 1500))
def test_parts_are_within_the_budget_in_order_and_bounded(lengths, budget, of_part):
    parts = [[f"{part}-{i:04d}" for i in range(length)] for part, length in enumerate(lengths)]
    merged = merge_samples(drawn(*parts, max_bytes=of_part), budget)
    assert merged.bytes == sum(map(len, merged.lines))
    assert merged.bytes <= budget or len(merged.lines) <= 1
    assert sorted(merged.lines) == merged.lines
    assert set(merged.lines) <= {line for part in parts for line in part}
    assert merged.of_lines == sum(lengths)
    large = max(1, 6 * sum(lengths))
    complete = merge_samples(drawn(*parts, max_bytes=large), large)
    assert complete.lines == [line for part in parts for line in part], "parts that fit are kept in order"


def test_a_part_counts_by_its_length_however_much_of_it_was_drawn():
    parts = drawn(numbered(0, 64_000), numbered(64_000, 72_000), max_bytes=12_000)  # one of 32 lines, and of 4
    merged = merge_samples(parts, 100_000)
    of_long = sum(int(line) < 64_000 for line in merged.lines)
    assert (merged.level, of_long, len(merged.lines)) == (5, 2000, 2250)
    assert merge_samples(drawn(numbered(0, 9000), max_bytes=700), 700).lines == sample(numbered(0, 9000), 700)
