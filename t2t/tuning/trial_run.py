"""One run of a study: its process, which outlives its tuner, is then found again, and is started again after a kill."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import t2t
from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.files.atomic import LockedError, exclusive_lock, is_locked, open_locked, os_errors_as_machine_errors

FINISHED, FAILED, STOPPED = "finished", "failed", "stopped"
"""How a run ends: trained, by an error, by `stop`."""

_PROGRAM = "import sys; from t2t.cli.trainer import main; sys.exit(main(['t2t-trainer', *sys.argv[1:]]))"
_MOST_STARTS = 3
"""Times that a process may be killed without a checkpoint in between."""


class TrialRun:
    """A run that `t2t-trainer` trains in a process of its own.

    Beside the folder of the run, `logs/` holds what the process prints, the lock of its tuner, and a file that the
    process has locked as long as it lives, also after its tuner was killed.

    Args:
        folder: of the run.
        arguments: of `t2t-trainer`, but for --output_dir.
        gpus: value of CUDA_VISIBLE_DEVICES; None leaves it as it is.
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
        """Makes this process its tuner; returns False where another tuner has it."""
        with os_errors_as_machine_errors(f"cannot write {self.log_file.parent}"):
            self.log_file.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._locks.enter_context(exclusive_lock(self._tuner_lock))
            except LockedError:
                return False
        return True

    def release(self) -> None:
        """Leaves it to other tuners."""
        self._locks.close()

    def poll(self) -> str:
        """Returns how the run has ended; empty while it trains. Starts its process, again after a kill."""
        if self._process is not None:
            status = self._process.poll()
            if status is None:
                return ""
            self._process = None
            if status == 0:
                return FINISHED
            if self._is_stopping:
                return STOPPED
            if 0 < status < 128:  # an error that the trainer has named
                return FAILED
        elif self._found_pid():
            return ""
        if self._is_stopping:
            return STOPPED
        return self._start()

    def stop(self) -> None:
        """Asks the process to save and end; `poll` tells when it has."""
        self._is_stopping = True
        with contextlib.suppress(ProcessLookupError):
            if self._process is not None:
                self._process.send_signal(signal.SIGTERM)
            elif (pid := self._found_pid()) > 0:
                os.kill(pid, signal.SIGTERM)

    def wait(self) -> None:
        """Waits for a process that was started here and has been stopped."""
        if self._process is not None:
            self._process.wait()

    def describe_failure(self) -> str:
        """Returns why it failed: the last line that the process has printed, unless it was killed."""
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
        root = str(Path(t2t.__file__).parents[1])  # of a checkout, which need not be installed
        path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        chosen = {} if self.gpus is None else {"CUDA_VISIBLE_DEVICES": self.gpus}
        with (
            os_errors_as_machine_errors(f"cannot write {self.log_file.parent}"),
            self.log_file.open("ab") as log,
            open_locked(self._process_lock) as lock,
        ):
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, f"--output_dir={self.folder}", *self._arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": path, **chosen},
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
        """Returns the number of a process that another tuner has started and that lives; 0 for none, -1 if unknown."""
        if not is_locked(self._process_lock):
            return 0
        with contextlib.suppress(OSError, ValueError):
            return int(self._process_lock.read_text())
        return -1
