import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t.data.reading.batching import cut_batches, pad_to, padded_size, width_ladder
from t2t.data.reading.reader import batch_unit
from t2t.specs.features import FeatureKind, FeatureSpec
from tests.errors import refused

LENGTHS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=80)


def by_name(pairs):
    return {"inputs": np.array([p[0] for p in pairs]), "targets": np.array([p[1] for p in pairs])}


def greedy(pairs, batch_size, rungs):
    """Reference implementation: the same rule, one example at a time."""

    def round_up(length):
        return min(rung for rung in rungs if rung >= length)

    def place_in_order(i):
        number = rungs.index(round_up(pairs[i][1]))
        return number, pairs[i][0] if number % 2 == 0 else -pairs[i][0], i

    batches, rows, widest = [], [], 0
    for place in sorted(range(len(pairs)), key=place_in_order):
        width = max(round_up(length) for length in pairs[place])
        if rows and (len(rows) + 1) * max(widest, width) > batch_size:
            batches.append(rows)
            rows, widest = [], 0
        rows, widest = [*rows, place], max(widest, width)
    return [*batches, rows]


@given(LENGTHS, st.integers(1, 400), st.sampled_from([1.0, 1.1, 1.5]))
def test_cut_is_the_greedy_rule_and_batches_fit_their_examples(pairs, batch_size, step):
    ladder = width_ladder(60, step)
    batches = cut_batches(np.arange(len(pairs)), by_name(pairs), batch_size, ladder)
    assert [batch.indices.tolist() for batch in batches] == greedy(pairs, batch_size, ladder.tolist())
    for batch in batches:
        assert len(batch.indices) * max(batch.widths.values()) <= batch_size or len(batch.indices) == 1
        for side, name in enumerate(("inputs", "targets")):
            longest = max(pairs[i][side] for i in batch.indices)
            assert longest <= batch.widths[name]
            assert step != 1.0 or longest == batch.widths[name]


def test_sources_rise_and_fall_from_one_width_to_the_next():
    """Targets of 3 and 4 have the widths 4 and 8: three rows of the longer side fit 24 tokens of width 8."""
    lengths = {"inputs": np.array([2, 8, 5, 1, 5, 8, 2]), "targets": np.array([4, 4, 3, 4, 8, 8, 8])}
    batches = cut_batches(np.arange(7), lengths, 24, np.array([4, 8]))
    assert [lengths["inputs"][batch.indices].tolist() for batch in batches] == [[1, 2, 5], [8, 8, 5], [2]]


@pytest.mark.parametrize(("lengths", "rows_by_size"), [
    ({"targets": [4, 4, 4, 4]}, {7: [1] * 4, 8: [2, 2], 11: [2, 2], 12: [3, 1], 15: [3, 1], 16: [4]}),
    # Widths 3, 3, 5: two rows of 3 are 6; with the third, three rows of 5 are 15.
    ({"inputs": [1, 3, 5], "targets": [3, 3, 3]}, {5: [1] * 3, 6: [2, 1], 14: [2, 1], 15: [3]}),
])  # fmt: skip
def test_a_batch_may_be_as_large_as_its_budget_by_the_longer_side_and_no_larger(lengths, rows_by_size):
    arrays = {name: np.array(values) for name, values in lengths.items()}
    for batch_size, rows in rows_by_size.items():
        batches = cut_batches(np.arange(len(arrays["targets"])), arrays, batch_size, width_ladder(5, 1.0))
        assert [len(batch.indices) for batch in batches] == rows


def test_without_sequences_batch_size_counts_examples():
    batches = cut_batches(np.array([4, 2, 9, 1, 0]), {}, 2, width_ladder(1))
    assert [b.indices.tolist() for b in batches] == [[4, 2], [9, 1], [0]]
    assert batches[0].widths == {}


def test_ladder_by_hand():
    # 8 * 1.5 = 12, 18, 27, 40.5 -> 40, then the longest instead of 60.
    assert width_ladder(50, 1.5).tolist() == [8, 12, 18, 27, 40, 50]
    # At least one more each: 8, 9, 10, then 11 (10 * 1.1), 12 (12.1).
    assert width_ladder(12, 1.1).tolist() == [8, 9, 10, 11, 12]
    assert width_ladder(5, 1.1).tolist() == [5]
    assert width_ladder(8, 1.5).tolist() == [8]
    assert width_ladder(9, 1.5).tolist() == [8, 9]
    # A rung that equals the longest length appears only once.
    assert width_ladder(12, 1.5).tolist() == [8, 12]
    assert width_ladder(0, 1.0).tolist() == width_ladder(1, 1.0).tolist() == width_ladder(0, 1.1).tolist() == [1]
    assert width_ladder(4, 1.0).tolist() == [1, 2, 3, 4]
    with refused("1.0", by=ValueError):
        width_ladder(10, 0.9)


@pytest.mark.parametrize(("kinds", "unit"), [
    (["tokens", "tokens"], "padded tokens per side"),
    (["tokens"], "padded tokens"),
    (["tokens", "label"], "padded tokens"),
    (["image", "label"], "examples"),
    (["image", "tokens"], "padded tokens"),
    (["video", "label"], "padded frames"),
    (["audio", "tokens"], "padded units of 10 ms or tokens per side"),
    (["real", "tokens"], "padded vectors or tokens per side"),
])  # fmt: skip
def test_the_unit_of_batch_sizes_is_that_of_the_sequences(kinds, unit):
    assert batch_unit(FeatureSpec(kind=FeatureKind(kind)) for kind in kinds) == unit


def test_padded_sizes_are_a_part_of_the_power_of_two_below_and_what_is_added_is_zero():
    assert [padded_size(size, 8, 8) for size in (1, 8, 9, 64, 65, 130, 1000)] == [8, 8, 16, 64, 72, 144, 1024]
    assert [padded_size(size, 2) for size in (1, 2, 3, 5, 7, 9, 13)] == [1, 2, 3, 6, 8, 12, 16]
    assert len({padded_size(size, 8, 8) for size in range(1, 1025)}) == 8 + 4 * 8
    padded = pad_to(np.ones((2, 3), np.int32), (3, 5))
    np.testing.assert_array_equal(padded, [[1, 1, 1, 0, 0], [1, 1, 1, 0, 0], [0] * 5])
