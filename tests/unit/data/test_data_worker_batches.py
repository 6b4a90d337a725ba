"""Each worker reads its part of one sequence of batches, and all workers have the same state."""

from itertools import islice

import numpy as np
import pytest

from t2t.data.manifest import read_manifest
from t2t.data.mixture import MixedBatches, ProblemSchedule
from t2t.data.reader import SplitReader
from t2t.data.training_batches import TrainingBatches
from t2t.data.worker_batches import WorkerBatches

REPLICAS, DRAWN = 6, 60


@pytest.fixture
def single(digits_train):
    return lambda: TrainingBatches(digits_train, seed=3, batch_size=120, window=70)


@pytest.fixture
def mixed(digits_train):
    def make():
        parts = {
            name: TrainingBatches(digits_train, seed=seed, batch_size=90, window=70) for seed, name in enumerate("ab")
        }
        return MixedBatches(parts, ProblemSchedule([1, 2], seed=5), per_update=2 * REPLICAS)

    return make


@pytest.mark.parametrize("kind", ["single", "mixed"])
def test_together_the_workers_have_the_whole_sequence(request, kind):
    make = request.getfixturevalue(kind)
    whole = list(islice(make(), DRAWN))
    of_workers = [islice(WorkerBatches(make(), REPLICAS, range(first, first + 2)), DRAWN) for first in (0, 2, 4)]
    for place, (batch, state), *found in zip(range(DRAWN), whole, *of_workers, strict=False):
        owner = place % REPLICAS // 2
        assert [one is not None for one, _ in found] == [worker == owner for worker in range(3)]
        assert [one_state for _, one_state in found] == [state] * 3
        for name, array in batch.items():
            np.testing.assert_array_equal(found[owner][0][name], array)


def test_another_number_of_workers_goes_on_from_a_state(single):
    whole = list(islice(single(), DRAWN))
    batches = WorkerBatches(single(), 4, range(1, 2))
    batches.seek(whole[2 * REPLICAS - 1][1])
    assert batches.state() == whole[2 * REPLICAS - 1][1]
    found = [batch for batch, _ in islice(batches, 8)]
    assert [batch is not None for batch in found] == [False, True, False, False] * 2
    np.testing.assert_array_equal(found[1]["targets"], whole[2 * REPLICAS + 1][0]["targets"])


def test_what_others_train_on_is_not_read(digits_train):
    class Counting(SplitReader):
        reads = 0

        def read(self, indices, feature):
            self.reads += 1
            return super().read(indices, feature)

    counting = Counting(digits_train.folder, read_manifest(digits_train.folder), "train")
    batches = TrainingBatches(counting, seed=3, batch_size=120, window=70)
    list(islice(WorkerBatches(batches, 6, range(2, 4)), 30))
    assert counting.reads == 10 * 2  # both features of each batch
