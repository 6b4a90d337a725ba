"""Writes TensorBoard events with TensorFlow."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from t2t.errors import one_line
from t2t.training.engine import EventWriter, events_error

_OPERATION = re.compile(r"\{\{function_node .*?\}\} ?| ?\[Op:\w+\]( name: ?)?")
"""Places in TensorFlow that its messages name, removed for the user."""


class TensorFlowEvents(EventWriter):
    """Writes with `tf.summary`."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._writers: dict[str, tf.summary.SummaryWriter] = {}

    def write(self, group: str, update: int, figures: Mapping[str, float]) -> None:
        """See the base class."""
        # Arrays, since TensorFlow keeps a tensor of each Python number for the life of the process. Of float64, since
        # its values beyond float32, e.g. of a perplexity, become infinite instead of an error.
        with _events_on_disk(self._folder):
            if group not in self._writers:
                self._writers[group] = tf.summary.create_file_writer(str(self._folder / group))
            with self._writers[group].as_default(step=np.int64(update)):
                for name, value in figures.items():
                    tf.summary.scalar(name, np.asarray(value, np.float64))

    def flush(self) -> None:
        """See the base class."""
        with _events_on_disk(self._folder):
            for writer in self._writers.values():
                writer.flush()


@contextlib.contextmanager
def _events_on_disk(folder: Path) -> Iterator[None]:
    """Context manager that turns TensorFlow's errors about writing events into a one-line MachineError."""
    try:
        yield
    except tf.errors.OpError as error:
        raise events_error(folder, _OPERATION.sub("", one_line(error.message))) from error
