"""The callback that all trackers share: it sends what a run writes, in a thread of its own."""

import abc
import atexit
import logging
import os
import threading
from collections.abc import Sequence
from typing import Any

import keras

from t2t.checkpoints.run_dir import RunDir
from t2t.errors import one_line
from t2t.files.paths import local_path
from t2t.tracking.reports import Report, hparams_of, read_reports, read_state, write_state

FINISHED, STOPPED, FAILED = "finished", "stopped", "failed"
"""How training ended: with its last update, before it (by a signal, or early stopping), or by an error."""
PATIENCE_S = 60.0
"""Seconds that the end of training waits for a tracker."""

log = logging.getLogger("t2t")


class RunTracker(keras.callbacks.Callback, abc.ABC):
    """Sends hparams, figures and the end of a run to an experiment tracker; a resumed run goes on in the same place.

    Training never waits for it but at its end, and is not ended by it: where the tracker cannot be reached, a warning
    says so once, and what it lacks is sent with the next figures, or when the run is resumed. Updates that are repeated
    after a crash are sent again.

    Args:
        output_dir: folder of the run; `tracking.json` in it says what has been sent. Of several workers, the chief
            alone takes the callback.
    """

    tracker: str
    """Name of the tracker, as `--track` has it."""

    def __init__(self, output_dir: str | os.PathLike[str]):
        super().__init__()
        self._folder = local_path(os.fspath(output_dir))
        self._update = 0
        self._run: RunDir | None = None
        self._state: dict[str, Any] = {}
        self._name = ""
        self._sent = 0
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._end = ""
        self._has_warned = False

    @abc.abstractmethod
    def begin(self, run: RunDir, name: str, hparams: dict[str, Any]) -> str:
        """Opens a run in the tracker.

        Args:
            run: its folder.
            name: by which the tracker knows it; empty for a new one.
            hparams: see `hparams_of`.

        Returns:
            the name by which it is found again.
        """

    @abc.abstractmethod
    def send(self, reports: Sequence[Report]) -> None:
        """Sends figures, at least one report."""

    @abc.abstractmethod
    def finish(self, state: str) -> None:
        """Closes the run in the tracker, which `FINISHED`, `STOPPED` or `FAILED` ended."""

    # === Callback ===

    def on_train_begin(self, logs=None):
        """Begins to send; raises UserError where the folder is not that of the run."""
        self._run, self._name, self._end = RunDir.open(self._folder), "", ""
        self._state = read_state(self._run, self.tracker)
        self._thread = threading.Thread(target=self._work, name=f"track-{self.tracker}", daemon=True)
        self._thread.start()
        atexit.register(self._fail)  # Keras tells callbacks nothing of errors
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
        """Sends what is left, and how training ended."""
        assert self._run is not None, "training has begun"
        last = self._run.record.hparams["train"]["train_steps"]
        self._close(FINISHED if self._update >= last else STOPPED)

    def _fail(self) -> None:
        self._close(FAILED)

    def _close(self, state: str) -> None:
        if self._thread is None:
            return
        self._end = state
        self._wake.set()
        self._thread.join(PATIENCE_S)
        if self._thread.is_alive():
            log.warning("%s does not answer, and lacks the last figures; resuming the run sends them", self.tracker)
        self._thread = None
        atexit.unregister(self._fail)

    # === Thread ===

    def _work(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            end = self._end  # before the figures are read, so that none come after it
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
            self._name = self.begin(run, known, hparams_of(run))
            self._sent = self._state["bytes"] if self._name == known else 0  # another one has nothing yet
            write_state(run, self.tracker, self._name, self._sent)
        reports, end = read_reports(run.metrics_file, self._sent)
        if reports:
            self.send(reports)
            self._sent = end
            write_state(run, self.tracker, self._name, end)

    def _warn(self, error: Exception) -> None:
        if not self._has_warned:
            self._has_warned = True
            text = one_line(error)[:300] or type(error).__name__
            log.warning("%s cannot be told of the run: %s; training goes on, and tries again", self.tracker, text)
