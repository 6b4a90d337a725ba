"""Which unfinished batches are joined, as many as fit and no more, and which sentences leave them."""

from itertools import chain

import numpy as np
import pytest

from t2t.inference.batch_sizes import min_active_size, select_active
from t2t.inference.search_batch import Batch
from t2t.inference.tensorflow.batch_queue import BatchQueue


class Steps:
    """A search that finishes all sentences in a step, and all but `left` of each batch in the first."""

    def __init__(self, last, left=None):
        self.last, self.left = last, left
        self.seen = []
        """Steps and row indices of each batch."""

    def start(self, indices, rows, seeds, prefixes=None, constraints=None):
        return Batch(indices, 0, None)

    def advance(self, batch):
        self.seen.append((batch.tokens, batch.indices.tolist()))
        if batch.tokens == self.last:
            return [(batch.indices, None)], None
        left = batch.indices[: self.left] if batch.tokens == 0 else batch.indices
        gone = batch.indices[len(left) :]
        return [(gone, None)] if len(gone) else [], Batch(left, batch.tokens + 1, None)


def run(search, batches, size, max_ids):
    """Searches rows of one size; returns the batches that were joined."""
    joined, count = [], sum(len(batch) for batch in batches)

    def concat(batches):
        joined.append([batch.indices.tolist() for batch in batches])
        return Batch(np.concatenate([batch.indices for batch in batches]), batches[0].tokens, None)

    queue = BatchQueue(search, np.full(count, size), max_ids, concat)
    rows = [(np.array(batch), np.zeros((len(batch), size), np.int32)) for batch in batches]
    found = chain.from_iterable(queue.run(rows, np.arange(count)))
    assert sorted(n for indices, _ in found for n in indices.tolist()) == list(range(count))
    return joined


@pytest.mark.parametrize(
    ("size", "max_ids", "second"),
    [
        (2, 8, [[0, 1, 2, 3], [4]]),  # 4 x 2 = 8 fits, 5 x 2 does not
        (2, 7, [[0, 1, 2], [3, 4]]),
        (2, 10, [[0, 1, 2, 3, 4]]),
        (3, 8, [[0, 1], [2, 3], [4]]),
        (9, 8, [[0], [1], [2], [3], [4]]),  # rows that are too long are searched alone
    ],
)
def test_unfinished_batches_are_concatenated_as_far_as_they_fit(size, max_ids, second):
    search = Steps(last=1)
    run(search, [[0], [1], [2], [3], [4]], size, max_ids)
    assert sorted(indices for tokens, indices in search.seen if tokens) == second


def test_batches_wait_for_others_until_they_are_one_batchs_worth():
    """Rows of 4 ids, at most 16 ids a batch: of three batches with 2 unfinished rows each, two are joined."""
    search = Steps(last=2, left=2)
    joined = run(search, np.arange(12).reshape(3, 4).tolist(), 4, 16)
    assert joined == [[[0, 1], [4, 5]], [[8, 9]], [[0, 1, 4, 5]], [[8, 9]]]
    assert [tokens for tokens, _ in search.seen] == [0, 0, 0, 1, 1, 2, 2]


def test_what_leaves_a_batch_and_what_stays():
    going = np.array([True, False, True, False, False, True, False, False, False])
    assert select_active(going, 0).all(), "more are going than may stay"
    assert not select_active(np.zeros(9, bool), 8).any()
    np.testing.assert_array_equal(select_active(going, 8), [1, 1, 1, 0, 0, 1, 0, 0, 0])
    np.testing.assert_array_equal(select_active(np.arange(17) < 11, 16), np.arange(17) < 16)
    assert [min_active_size(size) for size in (1, 2, 7, 14, 16, 46)] == [0, 1, 2, 4, 8, 16]
