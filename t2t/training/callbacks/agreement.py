"""Stops all workers of a run at the same update."""

import keras

from t2t.training.trainer import Trainer
from t2t.training.workers import Workers


class AgreeToStop(keras.callbacks.Callback):
    """Makes one worker's wish to stop, by a signal or a callback, that of all; comes last in the list.

    A wish travels with the sums of the next update and is read when the one after it is under way, so that nobody waits
    for the device. Every `every` updates, when the chief has saved and evaluated, all wait for each other.
    """

    def __init__(self, trainer: Trainer, workers: Workers, every: int):
        super().__init__()
        self._trainer, self._workers, self._every = trainer, workers, every

    def on_train_begin(self, logs=None):
        """Agrees on whether to train at all: an evaluation that was made up for may have ended it."""
        self._agree()

    def on_train_batch_end(self, batch, logs=None):
        """Agrees, or asks the others to stop and does what was asked."""
        if batch % self._every == 0:
            self._agree()
            return
        self._trainer.asks_to_stop |= self.model.stop_training
        self.model.stop_training = self._trainer.is_asked_to_stop()

    def _agree(self) -> None:
        self.model.stop_training = bool(self._workers.gather([int(self.model.stop_training)]).any())
