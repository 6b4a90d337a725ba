"""Writes TensorBoard events with the package tensorboard, which needs no TensorFlow."""

import time
from collections.abc import Mapping
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from t2t.training.engine import EventWriter, events_error


class TensorBoardEvents(EventWriter):
    """Writes with TensorBoard's own writer."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._writers: dict[str, EventFileWriter] = {}

    def write(self, group: str, update: int, figures: Mapping[str, float]) -> None:
        """See the base class."""
        values = [Summary.Value(tag=name, simple_value=value) for name, value in figures.items()]
        try:
            if group not in self._writers:
                self._writers[group] = EventFileWriter(str(self._folder / group))
            self._writers[group].add_event(Event(wall_time=time.time(), step=update, summary=Summary(value=values)))
        except OSError as error:
            raise events_error(self._folder, str(error)) from error

    def flush(self) -> None:
        """See the base class."""
        try:
            for writer in self._writers.values():
                writer.flush()
        except OSError as error:
            raise events_error(self._folder, str(error)) from error
