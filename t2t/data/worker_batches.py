"""The batches of one of several workers that train together."""

from collections.abc import Iterator, Mapping
from typing import Any

from t2t.data.batch_arrays import Arrays
from t2t.data.mixture import MixedBatches
from t2t.data.training_batches import TrainingBatches


class WorkerBatches(Iterator[tuple[Arrays | None, dict[str, Any]]]):
    """The sequence of batches that all workers share; a worker reads its own batches and skips the others.

    All workers have the same position in the data, and the sequence does not depend on the number of workers.

    Args:
        batches: the whole sequence.
        replicas: number of replicas of all workers; each micro-batch has one batch per replica.
        own: indices of this worker's replicas.
    """

    def __init__(self, batches: TrainingBatches | MixedBatches, replicas: int, own: range):
        self._batches, self._replicas, self._own = batches, replicas, own
        self._drawn = 0

    def state(self) -> dict[str, Any]:
        """Returns the state of the next batch."""
        return self._batches.state()

    def seek(self, state: Mapping[str, Any]) -> None:
        """Continues from the state after an update."""
        self._batches.seek(dict(state))
        self._drawn = 0

    def __next__(self) -> tuple[Arrays | None, dict[str, Any]]:
        """Returns a batch, or None if it is another worker's, and the state after it."""
        is_own = self._drawn % self._replicas in self._own
        self._drawn += 1
        return next(self._batches) if is_own else (None, self._batches.skip())
