import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from t2t.text.sample import SampleSize, spread_sample


def sample(lines, max_bytes):
    return list(spread_sample(iter(lines), max_bytes))


def test_everything_is_kept_where_it_fits():
    lines = [f"{i:03d}" for i in range(100)]
    assert sample(lines, 300) == lines
    assert sample([], 300) == []


@given(st.lists(st.text(max_size=9)), st.integers(1, 200))
def test_the_sample_is_within_the_budget_in_order_and_not_empty(lines, budget):
    positions = [f"{i}:{line}" for i, line in enumerate(lines)]
    kept = sample(positions, budget)
    assert sum(len(line.encode()) for line in kept) <= budget or len(kept) == 1
    assert [line for line in positions if line in set(kept)] == kept
    assert bool(kept) == bool(lines)


def test_one_line_of_each_block_is_kept():
    numbers = [int(line) for line in sample([f"{i:06d}" for i in range(100_000)], 6000)]
    assert 500 <= len(numbers) <= 1000
    block = 1
    while 100_000 / block > 1000:
        block *= 2
    assert [number // block for number in numbers] == list(range(len(numbers)))
    assert len(numbers) in (100_000 // block, 100_000 // block + 1)


def test_alternating_lines_are_not_thinned_to_one_side():
    kept = sample([side for _ in range(50_000) for side in ("de", "en")], 4000)
    for side in ("de", "en"):
        assert 0.4 < kept.count(side) / len(kept) < 0.6


def test_the_sample_is_the_same_every_time_and_counts_bytes():
    lines = ["ä" * (i % 7) + str(i) for i in range(5000)]
    assert sample(lines, 999) == sample(lines, 999)
    assert sum(len(line.encode()) for line in sample(["ää"] * 64, 64)) == 64


def test_the_report_says_how_much_of_how_much():
    reports = []
    kept = list(spread_sample((f"{i:06d}" for i in range(100_000)), 6000, reports.append))
    (report,) = reports
    assert (report.lines, report.of_lines, report.bytes) == (len(kept), 100_000, 6 * len(kept))
    assert report.lines * report.block >= 100_000 > (report.lines - 1) * report.block
    assert str(report) == f"{len(kept)} of 100,000 lines (0.0 MB), one of every {report.block}"
    list(spread_sample(["ä" * 500_000, "b"], 2_000_000, reports.append))
    assert str(reports[1]) == "all 2 lines (1.0 MB)"
    list(spread_sample([], 9, reports.append))
    assert str(reports[2]) == "all 0 lines (0.0 MB)"


def test_the_report_counts_lines_that_were_not_read():
    size = SampleSize(lines=40, bytes=900, of_lines=80, block=2)
    assert size.of_more(0) == size
    assert str(size.of_more(720)) == "40 of 800 lines (0.0 MB), one of every 20"


def test_nothing_is_read_before_the_first_line_is_asked_for():
    read = []
    lines = (read.append(i) or str(i) for i in range(3))
    kept = spread_sample(lines, 10)
    assert not read
    assert list(kept) == ["0", "1", "2"]


def test_memory_does_not_grow_with_the_corpus():
    def peak(count: int) -> int:
        tracemalloc.start()
        for _ in spread_sample((f"{i:020d}" for i in range(count)), 20_000):
            pass
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return highest

    assert peak(100_000) < 1.5 * peak(10_000)
