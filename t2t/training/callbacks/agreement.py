"""Stops all workers of a run at the same update."""

import keras

from t2t.training.trainer import Trainer
from t2t.training.workers import Workers


class AgreeToStop(keras.callbacks.Callback):
    """Stops all workers when one is to stop, by a signal or a callback; comes last in the list.

    The request is summed up with the next update and read while the one after it runs, so that no worker waits for
    its device. Every `every` updates, after the chief has saved and evaluated, the workers synchronize.
    """

    def __init__(self, trainer: Trainer, workers: Workers, every: int):
        super().__init__()
        self._trainer, self._workers, self._every = trainer, workers, every

    def on_train_begin(self, logs=None):
        """Synchronizes: a repeated evaluation (see `Evaluate`) may have ended training already."""
        self._agree()

    def on_train_batch_end(self, batch, logs=None):
        """Synchronizes, or sends a request to stop and follows received ones."""
        if batch % self._every == 0:
            self._agree()
            return
        self._trainer.asks_to_stop |= self.model.stop_training
        self.model.stop_training = self._trainer.is_asked_to_stop()

    def _agree(self) -> None:
        self.model.stop_training = bool(self._workers.gather([int(self.model.stop_training)]).any())
