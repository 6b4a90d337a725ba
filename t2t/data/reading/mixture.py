"""Mixes the batches of several problems into one sequence; divides a sequence among workers that train together.

Legend: P problems.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from t2t.data.reading.batch_arrays import Arrays
from t2t.data.reading.training_batches import TrainingBatches
from t2t.errors import UserError


class ProblemSchedule:
    """Picks the problem of each update: a pure function of the seed and the update's number.

    Args:
        weights: (P,) relative frequency of each problem, in any unit; none below 0, at least one above.
        seed: of the choice.
    """

    def __init__(self, weights: Any, seed: int):
        self.shares = np.asarray(weights, np.float64) / np.sum(weights)
        """(P,) float64, fraction of the updates of each problem."""
        self._seed = seed

    def __call__(self, update: int) -> int:
        """Returns the index of the problem, from 0, of an update."""
        digest = hashlib.blake2b(f"problem {self._seed} {update}".encode(), digest_size=8).digest()
        drawn = int.from_bytes(digest) / 2**64
        return int(np.searchsorted(np.cumsum(self.shares[:-1]), drawn, side="right"))


def shares_by_size(sizes: Any, temperature: float) -> np.ndarray:
    """Returns size^(1/T) of each problem, (P,) float64: proportional to size for T = 1, more even for larger T."""
    return np.asarray(sizes, np.float64) ** (1.0 / temperature)


class MixedBatches(Iterator[tuple[Arrays, dict[str, Any]]]):
    """Endless batches of several problems, with the state that follows each.

    All batches of an update are of the same problem: `per_update` batches, which is micro-batches times replicas.
    """

    def __init__(self, batches: Mapping[str, TrainingBatches], schedule: ProblemSchedule, per_update: int):
        self._batches, self._schedule, self._per_update = dict(batches), schedule, per_update
        self._drawn = 0

    def state(self) -> dict[str, Any]:
        """Returns the number of updates whose batches have been drawn, and the state of each problem's batches."""
        states = {name: batches.state() for name, batches in self._batches.items()}
        return {"updates": self._drawn // self._per_update, **states}

    def seek(self, state: Mapping[str, Any]) -> None:
        """Continues from a state.

        Raises:
            UserError: the state is not of these problems, or the data of one has no such window.
        """
        updates = state.get("updates")
        states: dict[str, Any] = {name: state.get(name) for name in self._batches}
        if type(updates) is not int or updates < 0 or not all(isinstance(one, dict) for one in states.values()):
            raise UserError(f"state {state} of the training data: it needs updates, and a state of {', '.join(states)}")
        self._drawn = updates * self._per_update
        for name, batches in self._batches.items():
            batches.seek(states[name])

    def __next__(self) -> tuple[Arrays, dict[str, Any]]:
        """Returns a batch and the state after it, which is exact after the last batch of an update."""
        batch, _ = next(self._next_problem())
        return batch, self.state()

    def skip(self) -> dict[str, Any]:
        """Skips a batch without reading it; returns the state after it."""
        self._next_problem().skip()
        return self.state()

    def _next_problem(self) -> TrainingBatches:
        problem = self._schedule(self._drawn // self._per_update + 1)
        self._drawn += 1
        return list(self._batches.values())[problem]


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
