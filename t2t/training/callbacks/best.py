"""Tracks the best evaluation of a run by a figure and marks its checkpoint."""

import math
from collections.abc import Iterable, Mapping

from t2t.checkpoints.store import CheckpointStore


class BestTracker:
    """Tracks the best value of one figure; one that is not finite counts as no improvement.

    `history` holds (update, value) of earlier evaluations; `problem` is one of several, or empty for the run.
    """

    def __init__(
        self,
        store: CheckpointStore,
        figure: str,
        higher_is_better: bool,
        history: Iterable[tuple[int, float]] = (),
        problem: str = "",
    ):
        self.figure = figure
        self._store, self._sign, self._problem = store, 1.0 if higher_is_better else -1.0, problem
        self._history = list(history)

    def forget_after(self, update: int) -> None:
        """Forgets the evaluations after an update, to which a run has gone back."""
        self._history = [entry for entry in self._history if entry[0] <= update]

    def has(self, update: int) -> bool:
        """Returns whether there is a value of an update."""
        return any(done == update for done, _ in self._history)

    def note(self, update: int, figures: Mapping[str, float]) -> None:
        """Takes the figure of an evaluation, where it is among the figures, and marks the best checkpoint."""
        if self.figure in figures:
            self._history.append((update, figures[self.figure]))
            self.mark()

    def best(self) -> tuple[int, float] | None:
        """Returns (update, value) of the best evaluation, the earliest of equals; None before the first."""
        finite = [entry for entry in self._history if math.isfinite(entry[1])]
        return max(finite, key=lambda entry: (self._sign * entry[1], -entry[0]), default=None)

    def updates_since_best(self) -> int:
        """Returns the updates between the best evaluation and the last; from the first where none is finite."""
        updates = [update for update, _ in self._history]
        best = self.best()
        return max(updates) - (best[0] if best else min(updates)) if updates else 0

    def mark(self) -> None:
        """Marks the checkpoint of the best evaluation, unless it is marked or gone."""
        best, marked = self.best(), self._store.best(self._problem)
        is_marked = best and marked and (marked.step, marked.metric) == (best[0], self.figure)
        if best and not is_marked and self._store.has(best[0]):
            self._store.mark_best(best[0], self.figure, best[1], self._problem)
