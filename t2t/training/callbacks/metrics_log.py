"""Writes all figures as JSON lines in the run directory, and as TensorBoard events."""

from collections.abc import Callable
from pathlib import Path

import keras

from t2t.backends.choice import backend


class LogMetrics(keras.callbacks.Callback):
    """Writes figures of training as `train/...` and of evaluation as `dev/...`.

    `append` writes one line of figures: (update, values). TensorBoard reads `train` and `dev` below `events_folder`.
    """

    def __init__(self, append: Callable[[int, dict[str, float]], None], events_folder: Path):
        super().__init__()
        self._append, self._update = append, 0
        self._events = backend().event_writer(Path(events_folder))

    def on_train_batch_end(self, batch, logs=None):
        """Writes the figures that the trainer reports."""
        self._update = batch
        if logs:
            self.write("train", batch, logs)

    def on_train_end(self, logs=None):
        """Writes the figures since the last log step, and waits until the events are on disk."""
        if logs:
            self.write("train", self._update, logs)
        self._events.flush()

    def write(self, group: str, update: int, figures: dict[str, float]) -> None:
        """Writes figures of a group, `train` or a split."""
        self._append(update, {f"{group}/{name}": value for name, value in figures.items()})
        self._events.write(group, update, figures)

    def write_evaluation(self, update: int, figures: dict[str, float]) -> None:
        """Writes the figures of an evaluation of the dev split."""
        self.write("dev", update, figures)
        self._events.flush()
