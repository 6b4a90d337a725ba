"""The base class of trackers: a callback that sends what a run writes, in a separate thread.

What it sends is the run's hparams, and the new lines of its `metrics.jsonl`.
"""

import abc
import atexit
import contextlib
import json
import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras

from t2t.checkpoints.run_dir import TRACKING_FILE, RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import one_line
from t2t.files.atomic import os_errors_as_machine_errors, write_atomically
from t2t.files.paths import local_path
from t2t.files.remote.mirror import fetch

_WRITING = threading.Lock()
"""Held while a tracker writes its state: several trackers share one file, each in its own thread."""


class UpdateFigures(NamedTuple):
    """Figures of an update."""

    update: int
    time: float
    """Seconds since 1970."""
    figures: dict[str, float]
    """Finite numbers by name, `train/...` and `dev/...`."""


def read_reports(file: Path, start: int) -> tuple[list[UpdateFigures], int]:
    """Returns the reports in the complete lines of a file from byte `start` on, and the position after them.

    A file shorter than `start` must be a new one, and is read from its beginning.
    """
    try:
        lines = file.open("rb")
    except FileNotFoundError:
        return [], start
    with lines:
        if lines.seek(0, 2) < start:
            start = 0
        lines.seek(start)
        added = lines.read()
    whole = added[: added.rfind(b"\n") + 1]
    return [report for line in whole.split(b"\n") if (report := _report(line))], start + len(whole)


def _report(line: bytes) -> UpdateFigures | None:
    with contextlib.suppress(ValueError, RecursionError, KeyError, AttributeError, TypeError):
        values = json.loads(line)
        update, time = int(values.pop("step")), float(values.pop("time"))
        return UpdateFigures(
            update, time, {name: value for name, value in values.items() if isinstance(value, int | float)}
        )
    return None  # damaged


def hparams_of(run: RunDir) -> dict[str, Any]:
    """Returns what describes a run: its names, overrides, every hparam, and the versions."""
    record = run.record
    named = {"problem": record.problem, "model": record.model, "hparams_set": record.hparams_set}
    values = {name: value for section in record.hparams.values() for name, value in section.items()}
    versions = {f"version.{name}": value for name, value in record.versions.items()}
    return {**named, "changes": record.overrides, **values, **versions}


def read_state(run: RunDir, tracker: str) -> dict[str, Any]:
    """Returns the `name` of a run in a tracker and the `bytes` of figures sent there; empty if it was never sent."""
    file = run.path / TRACKING_FILE
    fetch(file)
    state: Any = _read_states(file).get(tracker)
    is_whole = isinstance(state, dict) and isinstance(state.get("name"), str) and type(state.get("bytes")) is int
    return state if is_whole else {}


def write_state(run: RunDir, tracker: str, name: str, bytes_sent: int) -> None:
    """Writes what `read_state` returns, and keeps the state of other trackers; raises MachineError.

    If the folder mirrors an object store, `RunDir.publish_figures` uploads the file.
    """
    file = run.path / TRACKING_FILE
    with _WRITING, os_errors_as_machine_errors(f"cannot write {file}"):
        states = _read_states(file)
        states[tracker] = {"name": name, "bytes": bytes_sent}
        write_atomically(file, json.dumps(states).encode())


def _read_states(file: Path) -> dict[str, Any]:
    """Returns tracker -> state; empty where the file is missing or damaged."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        states = json.loads(file.read_text(encoding="utf-8"))
        return states if isinstance(states, dict) else {}
    return {}


FINISHED, STOPPED, FAILED = "finished", "stopped", "failed"
"""How training ended: with its last update, before that (by a signal or early stopping), or by an error."""
PATIENCE_S = 60.0
"""Seconds that the end of training waits for a tracker."""

log = logging.getLogger("t2t")


class RunTracker(keras.callbacks.Callback, abc.ABC):
    """Sends hparams, figures and the final state of a run to an experiment tracker; a resumed run continues there.

    Training waits for the tracker only at its end, and never fails because of it. If the tracker cannot be reached, a
    warning is logged once, and unsent figures are sent with the next ones, or when the run is resumed. Updates that are
    repeated after a crash are sent again.

    Args:
        output_dir: folder of the run; its `tracking.json` records what has been sent. With several workers, only the
            chief should use the callback.
    """

    tracker: str
    """Name of the tracker, a value of `--track`."""

    def __init__(self, output_dir: str | os.PathLike[str]):
        super().__init__()
        self._folder = local_path(os.fspath(output_dir))
        self._update = 0
        self._run: RunDir | None = None
        self._state: dict[str, Any] = {}
        self._name = ""
        self._is_described = False
        self._sent = 0
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._end = ""
        self._has_warned = False

    @abc.abstractmethod
    def begin(self, run: RunDir, name: str) -> str:
        """Opens a run in the tracker; does nothing else that may fail once a new one is there.

        Args:
            run: the run's directory.
            name: of the run in the tracker; empty for a new one.

        Returns:
            the name of the run in the tracker, by which it is found again.
        """

    @abc.abstractmethod
    def describe(self, hparams: dict[str, Any]) -> None:
        """Sends hparams, see `hparams_of`; is called again after an error."""

    @abc.abstractmethod
    def send(self, reports: Sequence[UpdateFigures]) -> None:
        """Sends figures, at least one report."""

    @abc.abstractmethod
    def finish(self, state: str) -> None:
        """Closes the run in the tracker with the state `FINISHED`, `STOPPED` or `FAILED`."""

    # === Callback ===

    def on_train_begin(self, logs=None):
        """Starts the thread that sends; raises UserError if there is no run in the folder."""
        self._run, self._name, self._is_described, self._end = RunDir.open(self._folder), "", False, ""
        self._update = CheckpointStore(self._run.checkpoints_folder).latest() or 0  # no batch follows in a finished run
        self._state = read_state(self._run, self.tracker)
        self._thread = threading.Thread(target=self._work, name=f"track-{self.tracker}", daemon=True)
        self._thread.start()
        atexit.register(self.on_train_error)  # for a process that ends while another thread trains
        self._wake.set()

    def on_train_batch_end(self, batch, logs=None):
        """Sends the figures of a log step."""
        self._update = batch
        if logs:
            self._wake.set()

    def on_epoch_end(self, epoch, logs=None):
        """Sends the figures of an evaluation."""
        self._wake.set()

    def on_train_end(self, logs=None):
        """Sends the remaining figures, and how training ended."""
        assert self._run is not None, "training has begun"
        last = self._run.record.hparams["train"]["train_steps"]
        self._close(FINISHED if self._update >= last else STOPPED)

    def on_train_error(self):
        """Sends the remaining figures, and that training failed."""
        self._close(FAILED)

    def _close(self, state: str) -> None:
        if self._thread is None:
            return
        self._end = state
        self._wake.set()
        self._thread.join(PATIENCE_S)
        if self._thread.is_alive():
            log.warning("%s does not answer; it lacks the last figures until the run is resumed", self.tracker)
        self._thread = None
        atexit.unregister(self.on_train_error)

    # === Thread ===

    def _work(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            end = self._end  # read before the figures, so that none are missed
            try:
                self._send_new()
                if end:
                    self.finish(end)
            except Exception as error:
                self._warn(error)
            if end:
                return

    def _send_new(self) -> None:
        run = self._run
        assert run is not None, "training has begun"
        if not self._name:
            known = self._state.get("name", "")
            self._name = self.begin(run, known)
            self._sent = self._state["bytes"] if self._name == known else 0  # a new one has nothing yet
            write_state(run, self.tracker, self._name, self._sent)  # at once, so that no error leads to another run
        if not self._is_described:
            self.describe(hparams_of(run))
            self._is_described = True
        reports, end = read_reports(run.metrics_file, self._sent)
        if reports:
            self.send(reports)
            self._sent = end
            write_state(run, self.tracker, self._name, end)

    def _warn(self, error: Exception) -> None:
        if not self._has_warned:
            self._has_warned = True
            text = one_line(error)[:300] or type(error).__name__
            log.warning("%s cannot record the run: %s; training goes on, and tries again", self.tracker, text)
