import itertools

import numpy as np
import pytest

from t2t.data.reading.batch_arrays import extreme_batches
from t2t.data.reading.fixed_shapes import FixedShapes, _widths
from t2t.data.reading.training_batches import TrainingBatches


def lengths_like_sentences(count, seed=0):
    """Target lengths of 3 to 60, mean 16, and correlated input lengths."""
    random = np.random.default_rng(seed)
    targets = np.clip(random.gamma(6.0, 2.6, count), 3, 60).astype(int)
    inputs = np.clip(targets + random.normal(0, 3, count), 3, 60).astype(int)
    return {"inputs": inputs, "targets": targets}


def shapes_of(batches):
    return {(batch.rows, batch.widths["inputs"], batch.widths["targets"]) for batch in batches}


COUNT = 20_000


@pytest.fixture(scope="module")
def lengths():
    return lengths_like_sentences(COUNT)


@pytest.fixture(scope="module")
def shapes(lengths):
    return FixedShapes.choose(lengths, 32, {"inputs": 60, "targets": 60}, 4096)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_widths_are_the_best_of_all(count):
    """Compared with every choice of `count` widths that ends with the longest length."""
    lengths = np.random.default_rng(1).integers(1, 9, 40)
    found = _widths(lengths, count, 9)

    def padded(widths):
        return np.array(widths)[np.searchsorted(widths, lengths)].sum()

    choices = [(*some, 9) for n in range(count) for some in itertools.combinations(range(1, 9), n)]
    assert padded(found) == min(padded(choice) for choice in choices)
    assert found == sorted(set(found))
    assert found[-1] == 9
    assert len(found) <= count


def check_batches(batches, lengths, first=0):
    """Checks that every example is in one batch that holds it, within the budget of 4096."""
    count = len(lengths["targets"])
    np.testing.assert_array_equal(np.sort(np.concatenate([b.indices for b in batches])), np.arange(count) + first)
    for batch in batches:
        assert 1 <= len(batch.indices) <= batch.rows
        assert batch.rows * max(batch.widths.values()) <= 4096
        assert all(lengths[name][batch.indices - first].max() <= width for name, width in batch.widths.items())


def test_little_is_padded_and_only_the_last_batch_has_empty_rows(shapes, lengths):
    batches = shapes.cut_batches(np.arange(COUNT) + 5, lengths)
    check_batches(batches, lengths, first=5)
    cells = sum(batch.rows * sum(batch.widths.values()) for batch in batches)
    assert 1 - sum(counts.sum() for counts in lengths.values()) / cells < 0.13
    assert [len(batch.indices) < batch.rows for batch in batches].count(True) <= 1
    listed = [(rows, widths["inputs"], widths["targets"]) for rows, widths in shapes.every()]
    assert shapes_of(batches) <= set(listed)
    assert len(set(listed)) == len(listed) <= 32
    assert shapes.every()[:2] == shapes.extremes(), "the extreme ones first"
    others = [shapes.cut_batches(np.arange(3000), lengths_like_sentences(3000, seed)) for seed in range(4)]
    seen = set().union(*map(shapes_of, others))
    assert seen <= set(listed), "a batch has a shape that is not listed"
    assert len({rows for rows, *_ in seen}) > 5


def test_targets_alone_have_all_the_shapes():
    lengths = {"targets": lengths_like_sentences(5000)["targets"]}
    shapes = FixedShapes.choose(lengths, 6, {"targets": 60}, 512)
    assert [others for _, others in shapes.grid] == [(0,)] * 6
    batches = shapes.cut_batches(np.arange(5000), lengths)
    assert {batch.widths["targets"] for batch in batches} == {width for width, _ in shapes.grid}


def test_shapes_are_those_of_the_first_window_that_has_examples(digits_train):
    """Of windows of one example, some have none within a `max_length` of 4."""
    for seed in range(10):
        batches = TrainingBatches(digits_train, seed=seed, batch_size=120, window=1, max_length=4, fixed_shapes=4)
        assert next(batches)[0]["targets"].shape[1] <= 4


def test_what_is_rehearsed_are_shapes_that_occur_the_widest_and_that_of_most_rows(digits_train):
    batches = TrainingBatches(digits_train, seed=3, batch_size=120, window=70, fixed_shapes=6)
    found = {tuple(array.shape for array in next(batches)[0].values()) for _ in range(200)}
    dummies = extreme_batches(digits_train, None, 120, 256, batches.shapes)
    rehearsed = [tuple(array.shape for array in batch.values()) for batch in dummies]
    assert len(rehearsed) == 2
    assert set(rehearsed) <= found
    assert rehearsed[0] == max(found, key=lambda shapes: max(columns for _, columns in shapes))
    assert rehearsed[1][0][0] == max(shapes[0][0] for shapes in found)


@pytest.mark.parametrize("widest", [60, 63, 64, 100])
def test_widths_are_multiples_and_none_is_wider_than_allowed(lengths, widest):
    longest, widths = ({"inputs": width, "targets": width} for width in (60, widest))
    shapes = FixedShapes.choose(lengths, 16, longest, 4096, 8, widths)
    widths = {width for main, others in shapes.grid for width in (main, *others)}
    assert {width for width in widths if width % 8} == {60: {60}, 63: {63}}.get(widest, set())
    assert max(widths) == min(widest, 64)
    check_batches(shapes.cut_batches(np.arange(COUNT), lengths), lengths)


@pytest.mark.parametrize(("max_length", "widest"), [(21, 21), (23, 23), (256, 24)])
def test_padding_to_multiples_ends_at_the_longest_length_that_models_are_made_for(digits_train, max_length, widest):
    settings = {"batch_size": 120, "max_length": max_length, "fixed_shapes": 4, "fixed_shapes_multiple": 8}
    batches = TrainingBatches(digits_train, seed=3, **settings)
    widths = {array.shape[1] for _ in range(60) for array in next(batches)[0].values()}
    assert max(widths) == widest
    assert all(width % 8 == 0 for width in widths - {widest})
    dummies = extreme_batches(digits_train, None, 120, max_length, batches.shapes, every_shape=True)
    assert len(dummies) == len(batches.shapes.every()) <= 4
