import re
import threading
from itertools import islice

import numpy as np
import pytest

from t2t.data.batching import SHORTEST_WIDTH
from t2t.data.curriculum import Curriculum
from t2t.data.eval_batches import EvalBatches
from t2t.data.generate import generate
from t2t.data.manifest import read_manifest
from t2t.data.prefetch import Prefetch
from t2t.data.reader import SplitReader
from t2t.data.training_batches import TrainingBatches
from t2t.errors import UserError
from tests.generated import Parity


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def rows_of(batch):
    """The examples of a batch as tuples without their padding."""
    return [
        tuple(tuple(batch[name][row][batch[name][row] > 0].tolist()) for name in sorted(batch))
        for row in range(len(batch["targets"]))
    ]


def whole_split(reader):
    indices = np.arange(len(reader))
    sides = []
    for name in ("inputs", "targets"):
        values, lengths = reader.read(indices, name)
        sides.append([tuple(part.tolist()) for part in np.split(values, np.cumsum(lengths)[:-1])])
    return sorted(zip(*sides, strict=True))


def epoch(batches, number):
    batches.seek({"epoch": number, "window": 0, "batch": 0})
    found = []
    while batches.state()["epoch"] == number:
        found.append(next(batches)[0])
    return found


@pytest.fixture
def batches(digits_train):
    return TrainingBatches(digits_train, seed=3, batch_size=120, window=70)


@pytest.mark.parametrize("changes", [{}, {"fixed_shapes": 3}, {"max_length": 12}, {"packed_length": 24}], ids=str)
def test_the_batch_of_an_example_is_the_one_that_training_reads(digits_train, changes):
    batches = TrainingBatches(digits_train, seed=3, batch_size=120, window=70, **changes)
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
    assert all(one is None for one in found[150:])
    for number in range(len(batches)):
        indices, arrays = batches[number]
        for example in indices.tolist():
            assert np.array_equal(found[example].indices, indices)
            assert found[example].widths["targets"] == arrays["targets"].shape[1]


def test_an_epoch_holds_every_example_once(batches, digits_train):
    first, second = epoch(batches, 0), epoch(batches, 1)
    for found in (first, second):
        assert sorted(row for batch in found for row in rows_of(batch)) == whole_split(digits_train)
    assert not same(first[0], second[0])


def test_padding_comes_last_and_the_budget_holds(batches):
    for batch in epoch(batches, 0):
        for name, rows in batch.items():
            assert rows.dtype == np.int32
            lengths = (rows > 0).sum(axis=1)
            assert all(
                (row[:length] > 0).all() and row[length - 1] == 1 for row, length in zip(rows, lengths, strict=True)
            )
            assert rows.size <= 120, name
            assert rows.shape[1] == SHORTEST_WIDTH or lengths.max() * 1.1 + 1 > rows.shape[1]
        assert len(batch["inputs"]) == len(batch["targets"])


def test_batches_are_shuffled_by_length(batches):
    widths = [batch["targets"].shape[1] for batch in epoch(batches, 0)]
    assert widths != sorted(widths)


def test_resuming_anywhere_gives_the_uninterrupted_sequence(digits_train):
    def fresh(**kwargs):
        return TrainingBatches(digits_train, seed=3, batch_size=120, window=70, **kwargs)

    uninterrupted = fresh()
    states, sequence = [uninterrupted.state()], []
    while states[-1]["epoch"] < 2:
        batch, state = next(uninterrupted)
        sequence.append(batch)
        states.append(state)
    assert len({tuple(state.values()) for state in states}) == len(states)
    assert {state["window"] for state in states} == {0, 1, 2}
    for position, state in enumerate(states[:-1]):
        resumed = fresh(state=state)
        assert resumed.state() == state
        following = min(len(sequence), position + 3)
        assert all(same(next(resumed)[0], batch) for batch in sequence[position:following])


def longest_of(batch):
    return max((rows > 0).sum(axis=1).max() for rows in batch.values())


@pytest.mark.parametrize(
    "state", [{"epoch": 0}, dict.fromkeys(("epoch", "window", "batch"), "0"), {"epoch": 0, "window": -1, "batch": 0}]
)
def test_what_is_no_state_is_refused(digits_train, state):
    with pytest.raises(UserError, match="it needs epoch, window and batch, whole numbers from 0 on"):
        TrainingBatches(digits_train, seed=3, batch_size=60, state=state)


def test_a_curriculum_by_hand():
    rising = Curriculum(first=4, last=12, batches=16)
    assert [rising.longest(drawn) for drawn in (0, 1, 2, 8, 15, 16, 1000)] == [4, 4, 5, 8, 11, 12, 12]


def test_short_examples_come_first_and_in_the_end_all(digits_train):
    rising = Curriculum(first=4, last=10, batches=30)
    batches = TrainingBatches(digits_train, seed=3, batch_size=30, window=70, max_length=10, curriculum=rising)
    longest, at_window, place = [], 0, (0, 0)
    for drawn in range(120):
        state = batches.state()
        assert state["drawn"] == drawn
        if (state["epoch"], state["window"]) != place:
            at_window, place = drawn, (state["epoch"], state["window"])
        longest.append(longest_of(next(batches)[0]))
        assert longest[-1] <= rising.longest(at_window)
    assert max(longest[:5]) == 4
    assert max(longest) == 10
    assert place[0] >= 1


def test_resuming_within_a_curriculum_gives_the_uninterrupted_sequence(digits_train):
    def fresh(**kwargs):
        rising = Curriculum(first=4, last=10, batches=40)
        return TrainingBatches(digits_train, seed=3, batch_size=60, window=70, curriculum=rising, **kwargs)

    uninterrupted = fresh()
    states, sequence = [uninterrupted.state()], []
    for _ in range(45):
        batch, state = next(uninterrupted)
        sequence.append(batch)
        states.append(state)
    for position in range(0, 42, 3):
        resumed = fresh(state=states[position])
        assert all(same(next(resumed)[0], batch) for batch in sequence[position : position + 3])


def test_a_curriculum_that_begins_with_nothing_is_refused(digits_train):
    with pytest.raises(UserError) as error:
        TrainingBatches(digits_train, seed=3, batch_size=60, window=70, curriculum=Curriculum(1, 9, 10))
    assert re.fullmatch(
        r"hparam curriculum_length=1: no train example of \w+ is so short \(the shortest has 2\); set it higher, or to "
        r"0", str(error.value),
    )  # fmt: skip
    with pytest.raises(UserError, match="it needs epoch, window, batch and drawn, whole numbers from 0 on"):
        TrainingBatches(
            digits_train, seed=3, batch_size=60, curriculum=Curriculum(4, 9, 10),
            state={"epoch": 0, "window": 0, "batch": 0},
        )  # fmt: skip


def test_order_depends_on_the_seed_alone(digits_train):
    def first(seed):
        return next(TrainingBatches(digits_train, seed=seed, batch_size=120, window=70))[0]

    assert same(first(3), first(3))
    assert not same(first(3), first(4))


def test_state_that_does_not_fit_is_refused(digits_train):
    with pytest.raises(UserError, match=r"has 3 windows; continue with the data and the hparams"):
        TrainingBatches(digits_train, seed=3, batch_size=120, window=70, state={"epoch": 0, "window": 3, "batch": 0})
    with pytest.raises(UserError, match="needs epoch, window and batch"):
        TrainingBatches(digits_train, seed=3, batch_size=120, state={"epoch": 0})


def test_longer_examples_are_skipped_and_counted(digits_train):
    short = TrainingBatches(digits_train, seed=3, batch_size=120, window=7, max_length=4)
    expected = [row for row in whole_split(digits_train) if len(row[0]) <= 4]
    assert 0 < len(expected) < len(digits_train)
    assert short.skipped == len(digits_train) - len(expected)
    # Windows of 7 with three quarters of the examples skipped: some windows are empty.
    assert sorted(row for batch in epoch(short, 0) for row in rows_of(batch)) == expected
    assert TrainingBatches(digits_train, seed=3, batch_size=120, max_length=21).skipped == 0


def test_skipping_everything_is_an_error(digits_train):
    with pytest.raises(UserError, match=r"max_length 1: all 200 train examples of digits are longer; .*has 21"):
        TrainingBatches(digits_train, seed=3, batch_size=120, max_length=1)


def test_columns_rename_swap_and_copy(digits_train):
    def first(columns):
        return next(TrainingBatches(digits_train, seed=3, batch_size=4000, columns=columns, ladder_step=1.0))[0]

    swapped = first({"inputs": "targets", "targets": "inputs"})
    plain = first(None)
    assert sorted((b, a) for a, b in rows_of(plain)) == sorted(rows_of(swapped))
    copied = first({"inputs": "inputs", "targets": "inputs"})
    assert np.array_equal(copied["inputs"], copied["targets"])
    with pytest.raises(UserError, match=r"feature 'input': the data of digits in .* did you mean inputs\? it has"):
        first({"inputs": "input"})


def test_prefetching_changes_nothing_and_keeps_states_exact(digits_train):
    def fresh(**kwargs):
        return TrainingBatches(digits_train, seed=3, batch_size=120, window=70, **kwargs)

    plain = list(islice(fresh(), 40))
    with Prefetch(fresh(), depth=8) as ahead:
        found = list(islice(ahead, 40))
    assert all(same(a[0], b[0]) and a[1] == b[1] for a, b in zip(plain, found, strict=True))
    with Prefetch(fresh(state=found[16][1])) as resumed:
        assert same(next(resumed)[0], plain[17][0])


def test_prefetch_forwards_errors_and_ends_its_thread():
    def source():
        yield 1
        raise OSError("disk gone")

    before = set(threading.enumerate())
    with Prefetch(source()) as ahead:
        assert next(ahead) == 1
        for _ in range(2):
            with pytest.raises(OSError, match="disk gone"):
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


def test_prefetch_never_runs_further_ahead_than_asked():
    taken = []
    with Prefetch((taken.append(i) or i for i in range(1000)), depth=3) as ahead:
        for _ in range(5):
            next(ahead)
        threading.Event().wait(0.05)
        assert len(taken) <= 5 + 3 + 1


def test_evaluation_holds_every_example_once_in_a_fixed_order(digits_train):
    batches = EvalBatches(digits_train, 120)
    found = {}
    for indices, batch in batches:
        assert max(rows.size for rows in batch.values()) <= 120
        found |= dict(zip(indices.tolist(), rows_of(batch), strict=True))
    assert sorted(found) == list(range(200))
    values, _ = digits_train.read(np.array([17]), "targets")
    assert found[17][1] == tuple(values.tolist())
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(batches, EvalBatches(digits_train, 120), strict=True))
    assert batches.shortened == 0


def test_evaluation_can_be_limited_to_the_first_examples(digits_train):
    indices = np.concatenate([indices for indices, _ in EvalBatches(digits_train, 120, limit=11)])
    assert sorted(indices.tolist()) == list(range(11))


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
    with pytest.raises(
        UserError, match=r"hparam fixed_shapes=4: parity has features that are no sequences \(targets\)"
    ):
        TrainingBatches(reader, seed=0, batch_size=64, fixed_shapes=4)
    with pytest.raises(UserError) as caught:
        TrainingBatches(reader, seed=0, batch_size=64, packed_length=64)
    assert str(caught.value) == (
        "hparam packed_length=64: parity has features that are no sequences of ids (targets); set packed_length=0"
    )


def test_the_extreme_batches_of_an_evaluation_are_that_of_the_longest_rows_and_that_of_most_rows(digits_train):
    batches = EvalBatches(digits_train, 120)
    every = [batch for _, batch in batches]
    widest, most_rows = batches.extremes()
    assert any(same(widest, batch) for batch in every)
    assert max(map(width_of, every)) == width_of(widest) > width_of(most_rows)
    assert max(len(batch["targets"]) for batch in every) == len(most_rows["targets"]) > len(widest["targets"])


def width_of(batch):
    return max(array.shape[1] for array in batch.values())
