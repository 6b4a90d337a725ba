"""Calls the epoch and test hooks of Keras callbacks; an epoch is the updates from one evaluation to the next."""

from collections.abc import Callable, Sequence

import keras

from t2t.training.trainer import Trainer

Figures = dict[str, float]


class CallEpochHooks(keras.callbacks.Callback):
    """Calls `on_epoch_begin`, `on_epoch_end`, `on_test_begin` and `on_test_end`; comes after `Evaluate` in the list.

    It comes before the callbacks whose hooks it calls, and `ending` after them, since an epoch begins before its first
    update and ends after its last. Epoch n, counted from 0, has the updates n * every + 1 to (n + 1) * every, also in a
    resumed run; the last one ends with the run. An epoch that is interrupted does not end.
    """

    def __init__(self, trainer: Trainer, callbacks: Sequence[keras.callbacks.Callback], every: int):
        super().__init__()
        self._trainer, self._callbacks, self._every = trainer, list(callbacks), every
        self.ending = keras.callbacks.LambdaCallback(on_train_batch_end=self._end_of_update)
        """Ends the epoch after its last update."""
        self._hooks = keras.callbacks.CallbackList([])
        self._has_begun = self._in_test = False
        self._epoch: int | None = None
        self._reported: Figures = {}  # of training, at the last log step
        self._evaluated: Figures = {}  # of the evaluation that ends the epoch, as Keras names them: `val_loss`

    def tests(self, evaluate: Callable[[], Figures], loss: Callable[[Figures], float]) -> Callable[[], Figures]:
        """Returns a function that evaluates, and calls the test hooks before and after.

        An evaluation that is repeated before training begins calls no hooks: the callbacks have not begun either.
        `loss` returns the figure that Keras callbacks know by this name.
        """

        def evaluate_as_test() -> Figures:
            if not self._has_begun:
                return evaluate()
            self._in_test = True
            self._hooks.on_test_begin()
            figures = evaluate()
            logs = {**figures, "loss": loss(figures)}
            self._evaluated = {f"val_{name}": value for name, value in logs.items()}
            self._hooks.on_test_end(logs)
            self._in_test = False
            return figures

        return evaluate_as_test

    def on_train_begin(self, logs=None):
        """Begins to call hooks."""
        self._hooks = keras.callbacks.CallbackList(self._callbacks)
        self._has_begun = True

    def on_train_batch_begin(self, batch, logs=None):
        """Begins an epoch unless one is in progress."""
        if self._epoch is None:
            self._epoch = batch // self._every
            self._hooks.on_epoch_begin(self._epoch)

    def on_train_batch_end(self, batch, logs=None):
        """Keeps the training figures."""
        self._reported = logs or self._reported

    def on_train_end(self, logs=None):
        """Ends the last epoch of a run that is finished."""
        self._reported = logs or self._reported
        if self._trainer.update >= self._trainer.plan.train_steps:
            self._end_epoch()

    def _end_of_update(self, batch: int, logs: Figures | None = None) -> None:
        if batch % self._every == 0:
            self._end_epoch()

    def _end_epoch(self) -> None:
        if self._epoch is not None and not self._in_test:  # a signal may have interrupted the test
            with self._trainer.paused():
                self._hooks.on_epoch_end(self._epoch, {**self._reported, **self._evaluated})
        self._epoch, self._evaluated = None, {}
