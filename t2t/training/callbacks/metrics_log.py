"""Keeps every figure: JSON lines in the run directory, and TensorBoard events."""

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from t2t.errors import MachineError, one_line

_OPERATION = re.compile(r"\{\{function_node .*?\}\} ?| ?\[Op:\w+\]( name: ?)?")
"""Where in TensorFlow something happened, in its messages."""


class LogMetrics(keras.callbacks.Callback):
    """Writes figures of training as `train/...` and of evaluation as `dev/...`.

    `append` writes one line of figures: (update, values). TensorBoard reads `train` and `dev` below `events_folder`.
    """

    def __init__(self, append: Callable[[int, dict[str, float]], None], events_folder: Path):
        super().__init__()
        self._append, self._folder, self._update = append, Path(events_folder), 0
        self._writers: dict[str, tf.summary.SummaryWriter] = {}

    def on_train_batch_end(self, batch, logs=None):
        """Writes what the trainer reports."""
        self._update = batch
        if logs:
            self.write("train", batch, logs)

    def on_train_end(self, logs=None):
        """Writes what came after the last log step, and waits for the events to be on the disk."""
        if logs:
            self.write("train", self._update, logs)
        self._flush()

    def write(self, group: str, update: int, figures: dict[str, float]) -> None:
        """Writes figures of a group, `train` or a split."""
        self._append(update, {f"{group}/{name}": value for name, value in figures.items()})
        # Arrays: TensorFlow keeps a tensor of each Python number for the life of the process. And of float64, whose
        # values beyond float32, e.g. of a perplexity, become infinite and no error.
        with _events_on_disk(self._folder):
            if group not in self._writers:
                self._writers[group] = tf.summary.create_file_writer(str(self._folder / group))
            with self._writers[group].as_default(step=np.int64(update)):
                for name, value in figures.items():
                    tf.summary.scalar(name, np.asarray(value, np.float64))

    def write_evaluation(self, update: int, figures: dict[str, float]) -> None:
        """Writes the figures of an evaluation of the dev split."""
        self.write("dev", update, figures)
        self._flush()

    def _flush(self) -> None:
        with _events_on_disk(self._folder):
            for writer in self._writers.values():
                writer.flush()


@contextlib.contextmanager
def _events_on_disk(folder: Path) -> Iterator[None]:
    """Raises MachineError, one line, in place of TensorFlow's errors about writing events."""
    try:
        yield
    except tf.errors.OpError as error:
        raise MachineError(
            f"cannot write TensorBoard events in {folder}: {_OPERATION.sub('', one_line(error.message))}; free some "
            f"space there, get write permission or move what is in the way, and run the same command again"
        ) from error
