"""Stops cleanly when the process is asked to: the update in progress ends, a checkpoint is saved."""

import signal

import keras


class StopOnSignal(keras.callbacks.Callback):
    """Ends training after the present update on SIGTERM or Ctrl-C; a second Ctrl-C interrupts at once."""

    def __init__(self):
        super().__init__()
        self.received: int | None = None
        """The signal that came, if any."""
        self._before: dict[int, object] = {}

    def on_train_begin(self, logs=None):
        """Takes over the signals."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._note)

    def on_train_batch_end(self, batch, logs=None):
        """Ends training where a signal has come."""
        if self.received is not None:
            self.model.stop_training = True

    def on_train_end(self, logs=None):
        """Gives the signals back."""
        self.release()

    def release(self) -> None:
        """Gives the signals back, also where training ended in an error."""
        while self._before:
            signal.signal(*self._before.popitem())

    def _note(self, number, frame) -> None:
        if self.received is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = number
