"""One run of a study. Its process survives its tuner, is found by the next one, and is restarted if killed."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.files.atomic import LockedError, exclusive_lock, is_locked, open_locked, os_errors_as_machine_errors
from t2t.runs.startup import environment_of_child

FINISHED, FAILED, STOPPED = "finished", "failed", "stopped"
"""How a run ended: trained to the end, by an error, or by `stop`."""

_PROGRAM = "import sys; from t2t.cli.trainer import main; sys.exit(main(['t2t-trainer', *sys.argv[1:]]))"
_MOST_STARTS = 3
"""How often a process may be killed without a checkpoint in between."""


class TrialRun:
    """A run that `t2t-trainer` trains in a separate process.

    Beside the folder of the run, `logs/` holds the output of the process, the lock of its tuner, and a file that the
    process keeps locked as long as it lives, even after its tuner was killed.

    Args:
        folder: of the run.
        arguments: of `t2t-trainer`, without --output_dir.
        gpus: value of CUDA_VISIBLE_DEVICES; None leaves it unchanged.
    """

    def __init__(self, folder: Path, arguments: Sequence[str], gpus: str | None = None):
        self.folder, self.gpus, self._arguments = folder, gpus, list(arguments)
        logs = folder.parent / "logs"
        self.log_file, self._tuner_lock = logs / f"{folder.name}.txt", logs / f"{folder.name}.lock"
        self._process_lock = logs / f"{folder.name}.process"
        self._process: subprocess.Popen | None = None
        self._locks = contextlib.ExitStack()
        self._is_stopping, self._starts, self._saved = False, 0, -1

    def take(self) -> bool:
        """Makes this process the run's tuner; returns False if it has another tuner."""
        with os_errors_as_machine_errors(f"cannot write {self.log_file.parent}"):
            self.log_file.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._locks.enter_context(exclusive_lock(self._tuner_lock))
            except LockedError:
                return False
        return True

    def release(self) -> None:
        """Gives the run up, so that other tuners can take it."""
        self._locks.close()

    def poll(self) -> str:
        """Returns how the run has ended, "" while it trains; starts its process, and restarts it if it was killed."""
        if self._process is not None:
            status = self._process.poll()
            if status is None:
                return ""
            self._process = None
            if status == 0:
                return FINISHED
            if self._is_stopping:
                return STOPPED
            if 0 < status < 128:  # an error that the trainer reported
                return FAILED
        elif self._found_pid():
            return ""
        if self._is_stopping:
            return STOPPED
        return self._start()

    def stop(self) -> None:
        """Asks the process to save and exit; `poll` then returns STOPPED once it has."""
        self._is_stopping = True
        with contextlib.suppress(ProcessLookupError):
            if self._process is not None:
                self._process.send_signal(signal.SIGTERM)
            elif (pid := self._found_pid()) > 0:
                os.kill(pid, signal.SIGTERM)

    def wait(self) -> None:
        """Waits for the end of a process that this object started, after `stop`."""
        if self._process is not None:
            self._process.wait()

    def describe_failure(self) -> str:
        """Returns why the run failed: the last line that its process printed, or that it was killed too often."""
        if self._starts > _MOST_STARTS:
            return f"its process was killed {_MOST_STARTS} times without a checkpoint in between"
        with contextlib.suppress(OSError):
            lines = self.log_file.read_text(encoding="utf-8", errors="replace").split("\n")
            return next((line.strip() for line in reversed(lines) if line.strip()), "")
        return ""

    def _start(self) -> str:
        saved = self._latest()
        self._starts = 1 if saved > self._saved else self._starts + 1
        self._saved = saved
        if self._starts > _MOST_STARTS:
            return FAILED
        chosen = {} if self.gpus is None else {"CUDA_VISIBLE_DEVICES": self.gpus}
        with (
            os_errors_as_machine_errors(f"cannot write {self.log_file.parent}"),
            self.log_file.open("ab") as log,
            open_locked(self._process_lock) as lock,
        ):
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, f"--output_dir={self.folder}", *self._arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment_of_child(**chosen),
                process_group=0, pass_fds=[lock.fileno()],
            )  # fmt: skip
            lock.truncate(0)
            lock.write(f"{self._process.pid}\n".encode())
            lock.flush()
        return ""

    def _latest(self) -> int:
        """Returns the step of the latest checkpoint, 0 without any."""
        if not RunDir.exists(self.folder):
            return 0
        return max(CheckpointStore(self.folder / "checkpoints").steps(), default=0)

    def _found_pid(self) -> int:
        """Returns the id of a live process that another tuner started; 0 for none, -1 if its id is unknown."""
        if not is_locked(self._process_lock):
            return 0
        with contextlib.suppress(OSError, ValueError):
            return int(self._process_lock.read_text())
        return -1
