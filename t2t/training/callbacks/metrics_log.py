"""Keeps every figure: JSON lines in the run directory, and TensorBoard events."""

from collections.abc import Callable
from pathlib import Path

import keras
import tensorflow as tf


class LogMetrics(keras.callbacks.Callback):
    """Writes figures of training as `train/...` and of evaluation as `dev/...`.

    Args:
        append: writes one line of figures: (update, values).
        events_folder: where TensorBoard reads them; `train` and `dev` below it.
    """

    def __init__(self, append: Callable[[int, dict[str, float]], None], events_folder: Path):
        super().__init__()
        self._append = append
        self._folder = Path(events_folder)
        self._writers: dict[str, tf.summary.SummaryWriter] = {}

    def on_train_batch_end(self, batch, logs=None):
        """Writes what the trainer reports."""
        if logs:
            self.write("train", batch, logs)

    def on_train_end(self, logs=None):
        """Waits for the events to be on the disk."""
        for writer in self._writers.values():
            writer.flush()

    def write(self, group: str, update: int, figures: dict[str, float]) -> None:
        """Writes figures of a group, `train` or a split."""
        self._append(update, {f"{group}/{name}": value for name, value in figures.items()})
        if group not in self._writers:
            self._writers[group] = tf.summary.create_file_writer(str(self._folder / group))
        with self._writers[group].as_default(step=update):
            for name, value in figures.items():
                tf.summary.scalar(name, value)

    def write_evaluation(self, update: int, figures: dict[str, float]) -> None:
        """Writes the figures of an evaluation of the dev split."""
        self.write("dev", update, figures)
        for writer in self._writers.values():
            writer.flush()
