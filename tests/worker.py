"""Trains as one of several workers and sends itself a signal: `python -m tests.worker SIGNAL UPDATE FLAGS...`."""

import os
import signal
import sys

import keras

from t2t.cli import trainer
from t2t.runs import training


class SendSignal(keras.callbacks.Callback):
    """Sends this process a signal when an update starts."""

    def __init__(self, number, update):
        super().__init__()
        self.number, self.update = number, update

    def on_train_batch_begin(self, batch, logs=None):
        if batch == self.update - 1:
            os.kill(os.getpid(), self.number)


if __name__ == "__main__":
    name, update, *flags = sys.argv[1:]
    fit, sends = training.TrainingRun.fit, SendSignal(signal.Signals[name], int(update))
    training.TrainingRun.fit = lambda self, callbacks=(): fit(self, [*callbacks, sends])
    sys.exit(trainer.main(["t2t-trainer", *flags]))
