"""Saves a checkpoint every n updates, at the end, and when the process is asked to stop."""

from collections.abc import Callable

import keras

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
