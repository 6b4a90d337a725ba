import threading
from functools import partial
from itertools import islice

import numpy as np
import pytest

from t2t.data.generation.generate import generate
from t2t.data.manifest import read_manifest
from t2t.data.reading.batching import SHORTEST_WIDTH
from t2t.data.reading.eval_batches import EvalBatches
from t2t.data.reading.prefetch import Prefetch
from t2t.data.reading.reader import SplitReader
from t2t.data.reading.training_batches import Curriculum, TrainingBatches
from tests.errors import refused
from tests.generated import Other, Parity, Repeated, check_resuming, epoch_of, examples_of, rows_of, same_arrays
from tests.waiting import wait_until


@pytest.fixture
def make(digits_train):
    """Returns a function that makes training batches with other settings."""
    return lambda **changes: TrainingBatches(digits_train, **{"seed": 3, "batch_size": 120, "window": 70, **changes})


@pytest.mark.parametrize("changes", [{}, {"fixed_shapes": 3}, {"max_length": 12}, {"packed_length": 24}], ids=str)
def test_the_batch_of_an_example_is_the_one_that_training_reads(digits_train, make, changes):
    batches = make(**changes)
    for epoch_number in (0, 1):
        batches.seek({"epoch": epoch_number, "window": 0, "batch": 0})
        expected = {}
        while batches.state()["epoch"] == epoch_number:
            batch = batches._next_batch()[0]
            expected |= {example: (batch.indices.tolist(), batch.widths) for example in batch.indices.tolist()}
        found = batches.batches_with(np.arange(len(digits_train)), epoch_number)
        assert {n: (one.indices.tolist(), one.widths) for n, one in enumerate(found) if one} == expected
        assert (len(expected) < len(digits_train)) == ("max_length" in changes)


def test_the_batch_of_an_example_that_is_evaluated(digits_train):
    batches = EvalBatches(digits_train, 100, limit=150)
    found = batches.batches_with(np.arange(len(digits_train)))
    assert [one is None for one in found] == [False] * 150 + [True] * 50
    for number in range(len(batches)):
        indices, arrays = batches[number]
        for example in indices.tolist():
            assert np.array_equal(found[example].indices, indices)
            assert found[example].widths["targets"] == arrays["targets"].shape[1]


@pytest.mark.parametrize("changes", [{}, {"fixed_shapes": 4}], ids=str)
def test_an_epoch_holds_every_example_once(digits_train, make, changes):
    first, second = (epoch_of(make(**changes), number) for number in (0, 1))
    for found in (first, second):
        assert sorted(row for batch in found for row in rows_of(batch)) == sorted(examples_of(digits_train))
        if changes:
            assert len({(batch["inputs"].shape, batch["targets"].shape) for batch in found}) <= 4
    assert not same_arrays(first[0], second[0])
    assert same_arrays(first[0], next(make(**changes))[0])
    assert not same_arrays(first[0], next(make(seed=4, **changes))[0])


def test_padding_comes_last_the_budget_holds_and_batches_are_shuffled_by_length(make):
    found = epoch_of(make())
    for batch in found:
        for name, rows in batch.items():
            assert rows.dtype == np.int32
            lengths = (rows > 0).sum(axis=1)
            for row, length in zip(rows, lengths, strict=True):
                assert (row[:length] > 0).all()
                assert row[length - 1] == 1
            assert rows.size <= 120, name
            assert rows.shape[1] == SHORTEST_WIDTH or lengths.max() * 1.1 + 1 > rows.shape[1]
        assert len(batch["inputs"]) == len(batch["targets"])
    widths = [batch["targets"].shape[1] for batch in found]
    assert widths != sorted(widths)


RISING = Curriculum(first=4, last=10, batches=40)
PREPROCESSED = {"preprocessors": (Other(features=("targets",)), Repeated(features=("inputs", "targets")))}


@pytest.mark.parametrize(("changes", "every"), [
    ({}, 1),
    ({"fixed_shapes": 4}, 3),
    ({"packed_length": 40}, 3),
    ({"curriculum": RISING, "batch_size": 60}, 5),
    ({"max_length": 16, **PREPROCESSED}, 3),
    ({"max_length": 16, "curriculum": Curriculum(first=6, last=16, batches=20), **PREPROCESSED}, 3),
], ids=lambda value: "-".join(value) if isinstance(value, dict) else None)  # fmt: skip
def test_resuming_anywhere_gives_the_uninterrupted_sequence(make, changes, every):
    states = check_resuming(partial(make, **changes), lambda state: state["epoch"] == 2, every)
    assert len({tuple(state.values()) for state in states}) == len(states)
    assert {state["window"] for state in states} == {0, 1, 2}


@pytest.mark.parametrize(("changes", "state"), [
    ({}, {"epoch": 0}),
    ({}, dict.fromkeys(("epoch", "window", "batch"), "0")),
    ({}, {"epoch": 0, "window": -1, "batch": 0}),
    ({"curriculum": RISING}, {"epoch": 0, "window": 0, "batch": 0}),
    ({}, {"epoch": 0, "window": 3, "batch": 0}),
])  # fmt: skip
def test_what_is_no_state_and_one_of_other_data_are_refused(make, changes, state):
    about = ["3", "windows"] if state.get("window") == 3 else ["epoch", "window", "batch", *["drawn"] * bool(changes)]
    with refused(*about):
        make(**changes, state=state)


def test_short_examples_come_first_and_in_the_end_all(make):
    by_hand = Curriculum(first=4, last=12, batches=16)
    assert [by_hand.longest(drawn) for drawn in (0, 1, 2, 8, 15, 16, 1000)] == [4, 4, 5, 8, 11, 12, 12]
    rising = Curriculum(first=4, last=10, batches=30)
    batches = make(batch_size=30, max_length=10, curriculum=rising)
    longest, at_window, place = [], 0, (0, 0)
    for drawn in range(120):
        state = batches.state()
        assert state["drawn"] == drawn
        if (state["epoch"], state["window"]) != place:
            at_window, place = drawn, (state["epoch"], state["window"])
        longest.append(max((rows > 0).sum(axis=1).max() for rows in next(batches)[0].values()))
        assert longest[-1] <= rising.longest(at_window)
    assert max(longest[:5]) == 4
    assert max(longest) == 10
    assert place[0] >= 1


def test_longer_examples_are_skipped_and_counted(digits_train, make):
    short = make(window=7, max_length=4)
    expected = sorted(row for row in examples_of(digits_train) if len(row[0]) <= 4)
    assert 0 < len(expected) < len(digits_train)
    assert short.skipped == len(digits_train) - len(expected)
    # Windows of 7 with three quarters of the examples skipped: some windows are empty.
    assert sorted(row for batch in epoch_of(short) for row in rows_of(batch)) == expected
    assert make(max_length=21).skipped == 0
    with refused("curriculum_length=1", 2, 0):
        make(curriculum=Curriculum(1, 9, 10))
    with refused("max_length", 1, 200, "digits", 21):
        make(max_length=1)


def test_columns_rename_swap_and_copy(make):
    def first(columns):
        return next(make(batch_size=4000, window=200, columns=columns, ladder_step=1.0))[0]

    swapped = first({"inputs": "targets", "targets": "inputs"})
    plain = first(None)
    assert sorted((b, a) for a, b in rows_of(plain)) == sorted(rows_of(swapped))
    copied = first({"inputs": "inputs", "targets": "inputs"})
    assert np.array_equal(copied["inputs"], copied["targets"])
    with refused("'input'", "digits", "inputs"):
        first({"inputs": "input"})


def test_prefetching_changes_nothing_keeps_states_exact_and_runs_no_further_ahead_than_asked(make):
    plain = list(islice(make(), 40))
    with Prefetch(make(), depth=8) as ahead:
        found = list(islice(ahead, 40))
    assert all(same_arrays(a[0], b[0]) and a[1] == b[1] for a, b in zip(plain, found, strict=True))
    with Prefetch(make(state=found[16][1])) as resumed:
        assert same_arrays(next(resumed)[0], plain[17][0])
    taken = []
    with Prefetch((taken.append(i) or i for i in range(1000)), depth=3) as ahead:
        for number in range(1, 50):
            next(ahead)
            wait_until(lambda: len(taken) >= number + 3, "batches are read ahead")  # noqa: B023
            assert len(taken) <= number + 3 + 1


def test_prefetch_forwards_errors_and_ends_its_thread():
    def source():
        yield 1
        raise OSError

    before = set(threading.enumerate())
    with Prefetch(source()) as ahead:
        assert next(ahead) == 1
        for _ in range(2):
            with pytest.raises(OSError):
                next(ahead)
    with Prefetch(iter([1, 2])) as ahead:
        assert list(ahead) == [1, 2]
        assert list(ahead) == []
    endless = Prefetch(iter(int, 1), depth=1)
    assert next(endless) == 0
    endless.close()
    with pytest.raises(StopIteration):
        next(endless)
    assert set(threading.enumerate()) <= before


def test_evaluation_holds_every_example_once_in_a_fixed_order(digits_train):
    batches = EvalBatches(digits_train, 120)
    found = {}
    for indices, batch in batches:
        assert max(rows.size for rows in batch.values()) <= 120
        found |= dict(zip(indices.tolist(), rows_of(batch), strict=True))
    assert found == dict(enumerate(examples_of(digits_train)))
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(batches, EvalBatches(digits_train, 120), strict=True))
    assert batches.shortened == 0
    every = [batch for _, batch in batches]
    widest, most_rows = batches.extremes()  # the longest rows, and most rows
    assert any(same_arrays(widest, batch) for batch in every)
    widths = [max(array.shape[1] for array in batch.values()) for batch in (*every, widest, most_rows)]
    assert max(widths[:-2]) == widths[-2] > widths[-1]
    assert max(len(batch["targets"]) for batch in every) == len(most_rows["targets"]) > len(widest["targets"])


def test_evaluation_cuts_what_is_too_long_and_keeps_its_end(digits_train):
    batches = EvalBatches(digits_train, 120, max_length=6)
    assert batches.shortened == int((digits_train.lengths("targets") > 6).sum()) > 0
    seen = 0
    for indices, batch in batches:
        for place, row in zip(indices, batch["targets"], strict=True):
            values, _ = digits_train.read(np.array([place]), "targets")
            expected = values if len(values) <= 6 else [*values[:5], 1]
            assert row[row > 0].tolist() == list(expected)
            seen += 1
    assert seen == 200


def test_labels_are_plain_vectors_and_text_sets_the_batches(tmp_path):
    generate(Parity(), tmp_path, tmp_path, workers=1)
    reader = SplitReader(tmp_path / "parity", read_manifest(tmp_path / "parity"), "train")
    seen = 0
    for indices, batch in EvalBatches(reader, 64):
        assert batch["targets"].dtype == np.int32
        assert batch["targets"].tolist() == [i % 2 for i in indices]
        assert batch["inputs"].size <= 64
        seen += len(indices)
    assert seen == 50
    cut = TrainingBatches(reader, seed=0, batch_size=20, max_length=2, curriculum=Curriculum(2, 2, 1))
    learnt = 0
    while cut.state()["epoch"] == 0:
        learnt += len(next(cut)[0]["targets"])
    assert (cut.shortened, learnt) == (40, 50), "after the curriculum those that are cut are learnt, too"
    labels_alone = TrainingBatches(reader, seed=0, batch_size=20, columns={"targets": "targets"})
    assert [len(next(labels_alone)[0]["targets"]) for _ in range(4)].count(20) >= 2
    for setting in ("fixed_shapes", "packed_length"):
        with refused(f"{setting}=64", "parity", "(targets)"):
            TrainingBatches(reader, seed=0, batch_size=64, **{setting: 64})
