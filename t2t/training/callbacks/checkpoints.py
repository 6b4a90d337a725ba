"""Saves a checkpoint every n updates, at the end, and when the process is asked to stop; marks the best ones."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

import keras

from t2t.checkpoints.layout import Best
from t2t.checkpoints.store import CheckpointStore
from t2t.training.trainer import Trainer
from t2t.training.weights import Arrays, ema_arrays, model_arrays, optimizer_arrays


class CheckFinite(keras.callbacks.Callback):
    """Raises DivergedError where `SaveCheckpoints` does, on the workers that save nothing; comes first in the list.

    Otherwise they would wait for the chief, lose it and report that instead.
    """

    def __init__(self, trainer: Trainer, every: int):
        super().__init__()
        self._trainer, self._every = trainer, every
        self._done: int | None = None

    def on_train_begin(self, logs=None):
        """Remembers the first update, whose state is not saved again: it is on disk, or the run is new."""
        self._done = self._trainer.update

    def on_train_batch_end(self, batch, logs=None):
        """Checks, and saves if this is the chief, after every `every` updates."""
        if batch % self._every == 0:
            self._check_and_save()

    def on_train_end(self, logs=None):
        """Checks the last update, and saves it if this is the chief."""
        self._check_and_save()

    def _check_and_save(self) -> None:
        trainer = self._trainer
        if trainer.update == self._done:
            return
        with trainer.paused():
            model = model_arrays(trainer.step)
            trainer.check_weights(model)
            self._save(model)
        self._done = trainer.update

    def _save(self, model: Arrays) -> None:
        pass


class SaveCheckpoints(CheckFinite):
    """Saves after every `every` updates, and after the last.

    Keeps the newest `keep_max` checkpoints and the best ones, 0 = all. `state` is more JSON to save, such as the run's
    seed. `before_save` is called before each checkpoint is saved.
    """

    def __init__(
        self,
        trainer: Trainer,
        store: CheckpointStore,
        every: int,
        keep_max: int,
        state: dict | None = None,
        before_save: Callable[[], None] = lambda: None,
    ):
        super().__init__(trainer, every)
        self._store, self._keep_max = store, keep_max
        self._state, self._before_save = dict(state or {}), before_save

    def _save(self, model: Arrays) -> None:
        trainer = self._trainer
        step, state = trainer.step, {**self._state, "data": trainer.data_state}
        optimizer, ema = optimizer_arrays(step), ema_arrays(step)
        self._before_save()
        self._store.save(trainer.update, model=model, optimizer=optimizer, ema=ema, state=state)
        self._store.prune(self._keep_max)


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
