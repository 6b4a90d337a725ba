"""Writes all figures as JSON lines in the run directory, and as TensorBoard events."""

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.summary.writer.record_writer import RecordWriter

from t2t.files.atomic import os_errors_as_machine_errors


class LogMetrics(keras.callbacks.Callback):
    """Writes figures of training as `train/...` and of evaluation as `dev/...`.

    `append` writes one line of figures: (update, values). TensorBoard reads `train` and `dev` below `events_folder`.
    """

    def __init__(self, append: Callable[[int, dict[str, float]], None], events_folder: Path):
        super().__init__()
        self._append, self._update, self._folder = append, 0, events_folder
        self._file_name = f"events.out.tfevents.{time.time():017.6f}.{socket.gethostname()}.{os.getpid()}"

    def on_train_batch_end(self, batch, logs=None):
        """Writes the figures that the trainer reports."""
        self._update = batch
        if logs:
            self.write("train", batch, logs)

    def on_train_end(self, logs=None):
        """Writes the figures since the last log step."""
        if logs:
            self.write("train", self._update, logs)

    def write(self, group: str, update: int, figures: dict[str, float]) -> None:
        """Writes figures of a group, `train` or a split."""
        self._append(update, {f"{group}/{name}": value for name, value in figures.items()})
        event = Event(wall_time=time.time(), step=update)
        with np.errstate(over="ignore"):  # values beyond float32, e.g. of a perplexity, become infinite
            for name, value in figures.items():
                event.summary.MergeFrom(scalar_pb(name, value))
        path = self._folder / group / self._file_name
        with os_errors_as_machine_errors(f"cannot write TensorBoard events in {self._folder}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                records = RecordWriter(file)
                if not file.tell():
                    records.write(Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())
                records.write(event.SerializeToString())

    def write_evaluation(self, update: int, figures: dict[str, float]) -> None:
        """Writes the figures of an evaluation of the dev split."""
        self.write("dev", update, figures)
