"""Evaluates every n updates, keeps the best checkpoint, and stops a run that no longer improves."""

import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import Any

import keras

from t2t.checkpoints.store import CheckpointStore
from t2t.metrics import higher_is_better
from t2t.training.callbacks.signals import StopRequestedError
from t2t.training.trainer import Trainer
from t2t.training.weights import averaged_weights

log = logging.getLogger("t2t")


class Evaluate(keras.callbacks.Callback):
    """Evaluates after every `every` updates and after the last; comes after `SaveCheckpoints` in the list.

    The history of a resumed run is what its metrics file holds up to where it goes on, so that best and early stopping
    are those of an uninterrupted run. The last evaluation is made up for where a crash has lost it.

    Args:
        trainer: whose model is evaluated, under its moving average where it keeps one.
        evaluate: returns figures by name.
        store: whose best checkpoint is marked.
        every: updates between two evaluations.
        best_metric: figure that picks the best.
        patience: updates without a better one after which training stops; 0 = never.
        history: (update, value of `best_metric`) of earlier evaluations of the run.
        listeners: called with (update, figures).
        interruptible: context in which an evaluation may be broken off by StopRequestedError.
    """

    def __init__(
        self,
        trainer: Trainer,
        evaluate: Callable[[], dict[str, float]],
        store: CheckpointStore,
        *,
        every: int,
        best_metric: str,
        patience: int = 0,
        history: Iterable[tuple[int, float]] = (),
        listeners: Iterable[Callable[[int, dict[str, float]], Any]] = (),
        interruptible: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext,
    ):
        super().__init__()
        self._trainer, self._evaluate, self._store, self._every = trainer, evaluate, store, every
        self._best_metric, self._patience = best_metric, patience
        self._higher = higher_is_better(best_metric)
        self._history = [(update, value) for update, value in history if update <= trainer.update]
        self._listeners = list(listeners)
        self._interruptible = interruptible

    def on_train_begin(self, logs=None):
        """Makes up for what a crash has lost: the evaluation of the checkpoint, or the mark of the best one."""
        update, last = self._trainer.update, self._trainer.plan.train_steps
        self._mark_best()
        if update and (update % self._every == 0 or update >= last):
            self._run()
        else:
            self._stop_where_stuck()

    def on_train_batch_end(self, batch, logs=None):
        """Evaluates where it is time."""
        if batch % self._every == 0:
            self._run()

    def on_train_end(self, logs=None):
        """Evaluates the last update of a run that is finished; one that was interrupted goes on later."""
        if self._trainer.update >= self._trainer.plan.train_steps:
            self._run()

    def best(self) -> tuple[int, float] | None:
        """Returns (update, value) of the best evaluation, the earliest of equals; None before the first."""
        if not self._history:
            return None
        sign = 1.0 if self._higher else -1.0
        return max(self._history, key=lambda entry: (sign * entry[1], -entry[0]))

    def _run(self) -> None:
        update = self._trainer.update
        if any(done == update for done, _ in self._history):
            self._stop_where_stuck()
            return
        try:
            with averaged_weights(self._trainer.step), self._interruptible():
                figures = self._evaluate()
        except StopRequestedError:  # the checkpoint is on the disk; a resumed run makes up for the evaluation
            self.model.stop_training = True
            return
        for listener in self._listeners:
            listener(update, figures)
        if self._best_metric in figures:
            self._history.append((update, figures[self._best_metric]))
            self._mark_best()
        self._stop_where_stuck()

    def _mark_best(self) -> None:
        best, marked = self.best(), self._store.best()
        is_marked = best and marked and (marked.step, marked.metric) == (best[0], self._best_metric)
        if best and not is_marked and best[0] in self._store.steps():
            self._store.mark_best(best[0], self._best_metric, best[1])

    def _stop_where_stuck(self) -> None:
        best = self.best()
        if not self._patience or not best:
            return
        stuck = max(update for update, _ in self._history) - best[0]
        if stuck >= self._patience:
            log.info(
                "early stopping at update %d: %s has not improved on %.4f for %d updates",
                self._trainer.update, self._best_metric, best[1], stuck,
            )  # fmt: skip
            self.model.stop_training = True
