"""Stops training cleanly on signals: the update in progress is finished, and a checkpoint is saved, by all workers."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

import keras

from t2t.backends.workers import Workers
from t2t.training.trainer import Trainer


class StopRequestedError(Exception):
    """The process was asked to stop during work that may be left undone."""


class StopOnSignal(keras.callbacks.Callback):
    """Ends training after the current update on SIGTERM, SIGHUP or Ctrl-C; a second Ctrl-C interrupts at once.

    An ignored SIGHUP stays ignored, as under nohup. Outside the main thread, signals are left alone. The callback comes
    last, so that signals are held until everything is saved.
    """

    def __init__(self) -> None:
        super().__init__()
        self.received: int | None = None
        """The signal that came, if any."""
        self._before: dict[int, Any] = {}
        self._raises = False

    def on_train_begin(self, logs=None):
        """Installs the signal handlers."""
        self.take_over()

    def on_train_batch_end(self, batch, logs=None):
        """Ends training if a signal has been received."""
        if self.received is not None:
            self.model.stop_training = True

    def on_train_end(self, logs=None):
        """Restores the previous signal handlers."""
        self.release()

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Context manager in which a signal raises StopRequestedError.

        Any error after a signal is treated as its effect: libraries swallow exceptions, see `t2t.cli.stopping`.
        """
        if self.received is not None:
            raise StopRequestedError
        self._raises = True
        try:
            yield
        except Exception as error:
            if self.received is None:
                raise
            raise StopRequestedError from error
        finally:
            self._raises = False

    def take_over(self) -> None:
        """Installs the signal handlers, unless they are installed; Python allows it in the main thread alone."""
        if threading.current_thread() is not threading.main_thread():
            return
        stays = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        for number in (signal.SIGTERM, signal.SIGINT, *([] if stays else [signal.SIGHUP])):
            if number not in self._before:
                self._before[number] = signal.signal(number, self._handle_signal)

    def release(self) -> None:
        """Restores the previous signal handlers, also after an error."""
        while self._before:
            signal.signal(*self._before.popitem())

    def _handle_signal(self, number, frame) -> None:
        if self.received is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = number
        if self._raises:
            self._raises = False
            raise StopRequestedError


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
