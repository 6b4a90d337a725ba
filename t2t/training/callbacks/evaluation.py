"""Evaluates every n updates, keeps the best checkpoint, and stops a run that no longer improves."""

import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras

from t2t.training.callbacks.checkpoints import BestTracker
from t2t.training.callbacks.signals import StopRequestedError
from t2t.training.trainer import Trainer
from t2t.training.weights import evaluated_weights

log = logging.getLogger("t2t")


class Evaluate(keras.callbacks.Callback):
    """Evaluates after every `every` updates and after the last; comes after `SaveCheckpoints` in the list.

    A resumed run forgets the evaluations after the update from which it resumes, so that the best checkpoint and early
    stopping are those of an uninterrupted run. An evaluation lost in a crash is repeated.

    Args:
        trainer: whose model is evaluated, with its moving averages if it keeps them.
        evaluate: returns figures by name.
        best_trackers: select the best checkpoints; the first selects the run's, and decides on early stopping; empty
            for workers that help the chief.
        every: updates between two evaluations.
        patience: updates without improvement after which training stops; 0 = never.
        listeners: called with (update, figures).
        interruptible: context in which StopRequestedError may abort an evaluation.
        agree: replaces each worker's decision whether to evaluate by the chief's.
    """

    def __init__(
        self,
        trainer: Trainer,
        evaluate: Callable[[], dict[str, float]],
        best_trackers: Sequence[BestTracker],
        *,
        every: int,
        patience: int = 0,
        listeners: Iterable[Callable[[int, dict[str, float]], Any]] = (),
        interruptible: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext,
        agree: Callable[[bool], bool] = bool,
    ):
        super().__init__()
        self._trainer, self._evaluate, self._every, self._patience = trainer, evaluate, every, patience
        self._bests, self._listeners = list(best_trackers), list(listeners)
        self._interruptible, self._agree = interruptible, agree
        for best in self._bests:
            best.forget_after(trainer.update)

    def on_train_begin(self, logs=None):
        """Repeats what a crash has lost: the evaluation of the checkpoint, or the mark of the best one."""
        update, last = self._trainer.update, self._trainer.plan.train_steps
        for best in self._bests:
            best.mark()
        if update and (update % self._every == 0 or update >= last):
            self._run()
        else:
            self._stop_early()

    def on_train_batch_end(self, batch, logs=None):
        """Evaluates after every `every` updates."""
        if batch % self._every == 0:
            with self._trainer.paused():
                self._run()

    def on_train_end(self, logs=None):
        """Evaluates the last update of a run that is finished; an interrupted one is resumed later."""
        if self._trainer.update >= self._trainer.plan.train_steps:
            self._run()

    def _run(self) -> None:
        update = self._trainer.update
        if not self._agree(not any(best.has(update) for best in self._bests[:1])):
            self._stop_early()
            return
        try:
            with evaluated_weights(self._trainer.step), self._interruptible():
                figures = self._evaluate()
        except StopRequestedError:  # the checkpoint is on disk; a resumed run repeats the evaluation
            self.model.stop_training = True
            return
        for listener in self._listeners:
            listener(update, figures)
        for best in self._bests:
            best.note(update, figures)
        self._stop_early()

    def _stop_early(self) -> None:
        if self._patience and self._bests and self._bests[0].updates_since_best() >= self._patience:
            best = self._bests[0]
            found = best.best()
            value = f"{found[1]:.4f}" if found else "nan"
            log.info(
                "early stopping at update %d: %s has not improved on %s for %d updates",
                self._trainer.update, best.figure, value, best.updates_since_best(),
            )  # fmt: skip
            self.model.stop_training = True
