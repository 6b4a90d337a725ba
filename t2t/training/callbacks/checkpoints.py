"""Saves a checkpoint every n updates, at the end, and when the process is asked to stop."""

from collections.abc import Callable

import keras

from t2t.checkpoints.store import CheckpointStore
from t2t.training.trainer import Trainer
from t2t.training.weights import ema_arrays, model_arrays, optimizer_arrays


class SaveCheckpoints(keras.callbacks.Callback):
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
        super().__init__()
        self._trainer, self._store, self._every, self._keep_max = trainer, store, every, keep_max
        self._state, self._before_save = dict(state or {}), before_save
        self._saved: int | None = None

    def on_train_begin(self, logs=None):
        """Remembers the first update, whose state is not saved again: it is on disk, or the run is new."""
        self._saved = self._trainer.update

    def on_train_batch_end(self, batch, logs=None):
        """Saves after every `every` updates."""
        if batch % self._every == 0:
            self._save()

    def on_train_end(self, logs=None):
        """Saves the last update."""
        self._save()

    def _save(self) -> None:
        trainer = self._trainer
        if trainer.update == self._saved:
            return
        trainer.check_finite()
        step, state = trainer.step, {**self._state, "data": trainer.data_state}
        model = model_arrays(step)
        trainer.check_weights(model)
        optimizer, ema = optimizer_arrays(step), ema_arrays(step)
        self._before_save()
        self._store.save(trainer.update, model=model, optimizer=optimizer, ema=ema, state=state)
        self._saved = trainer.update
        self._store.prune(self._keep_max)
