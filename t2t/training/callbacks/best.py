"""Tracks the best evaluations of a run by one figure, and marks their checkpoints as best."""

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from t2t.checkpoints.layout import Best
from t2t.checkpoints.store import CheckpointStore


class BestTracker:
    """Tracks the best values of one figure; a value that is not finite is no improvement.

    Args:
        store: the run's checkpoints.
        figure: name of the figure.
        higher_is_better: whether larger values are better.
        history: (update, value) of earlier evaluations; the later of two for one update counts.
        problem: whose best checkpoint is marked, one of several; empty for the run's.
        keep_best: how many of the run's best checkpoints are kept.
    """

    def __init__(
        self,
        store: CheckpointStore,
        figure: str,
        higher_is_better: bool,
        history: Iterable[tuple[int, float]] = (),
        problem: str = "",
        keep_best: int = 1,
    ):
        self.figure = figure
        self._store, self._sign, self._problem = store, 1.0 if higher_is_better else -1.0, problem
        self._history, self._keep_best = dict(history), keep_best

    def forget_after(self, update: int) -> None:
        """Forgets the evaluations after an update, to which a run has gone back."""
        self._history = {done: value for done, value in self._history.items() if done <= update}

    def has(self, update: int) -> bool:
        """Returns whether there is a value of an update."""
        return update in self._history

    def note(self, update: int, figures: Mapping[str, float]) -> None:
        """Records the figure of an evaluation, if `figures` has it, and marks the best checkpoint."""
        if self.figure in figures:
            self._history[update] = figures[self.figure]
            self.mark()

    def best(self) -> tuple[int, float] | None:
        """Returns (update, value) of the best evaluation, the earliest of equals; None before the first."""
        return next(iter(self._ranked()), None)

    def _ranked(self) -> list[tuple[int, float]]:
        """Returns (update, value) of all finite evaluations, best first, the earliest of equals first."""
        finite = [entry for entry in self._history.items() if math.isfinite(entry[1])]
        return sorted(finite, key=lambda entry: (-self._sign * entry[1], entry[0]))

    def updates_since_best(self) -> int:
        """Returns the updates from the best evaluation to the last; from the first if no value is finite."""
        updates, best = list(self._history), self.best()
        return max(updates) - (best[0] if best else min(updates)) if updates else 0

    def mark(self) -> None:
        """Marks the checkpoints of the best evaluations among those that exist, unless they are marked.

        If another figure decided before, the checkpoint of the very best evaluation may be gone.
        """
        best, marked = next(self._kept(), None), self._store.best(self._problem)
        if best and not (marked and (marked.step, marked.metric) == (best.step, best.metric)):
            self._store.mark_best(best.step, best.metric, best.value, self._problem)
        if not self._problem:
            self._rank()

    def _rank(self) -> None:
        """Records the best checkpoints of the run if several are kept, or were before."""
        recorded = self._store.ranking()
        if self._keep_best == 1 and len(recorded) < 2:
            return
        ranking = list(islice(self._kept(), self._keep_best))
        if ranking and ranking != recorded:
            self._store.rank_best(ranking)

    def _kept(self) -> Iterator[Best]:
        """Yields the evaluations whose checkpoints exist, best first."""
        return (Best(update, self.figure, value) for update, value in self._ranked() if self._store.has(update))
