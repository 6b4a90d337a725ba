"""Which unfinished batches are joined: as many as fit, and no more."""

from itertools import chain

import numpy as np
import pytest

from t2t.inference.search_batch import Batch
from t2t.inference.tensorflow import batch_queue
from t2t.inference.tensorflow.batch_queue import BatchQueue


class TwoSteps:
    """A search that finishes no sentence in the first step and all in the second."""

    def __init__(self):
        self.second = []
        """Row indices of each batch in the second step."""

    def start(self, indices, rows, seeds, prefixes=None, constraints=None):
        return Batch(indices, 0, None)

    def advance(self, batch):
        if batch.tokens == 0:
            return [], batch._replace(tokens=1)
        self.second.append(batch.indices.tolist())
        return [(batch.indices, None)], None


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
def test_unfinished_batches_are_concatenated_as_far_as_they_fit(monkeypatch, size, max_ids, second):
    monkeypatch.setattr(
        batch_queue, "concat_batches", lambda batches: Batch(np.concatenate([one.indices for one in batches]), 1, None)
    )
    search = TwoSteps()
    batches = [(np.array([index]), np.array([[7]])) for index in range(5)]
    found = chain.from_iterable(BatchQueue(search, np.full(5, size), max_ids).run(batches, np.arange(5)))
    assert sorted(index for indices, _ in found for index in indices.tolist()) == list(range(5))
    assert sorted(search.second) == second
