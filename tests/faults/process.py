"""Commands as real processes, which can be killed at any moment.

Python and TensorFlow take seconds to start. A cold process starts as a user would start it. A warm one is forked from a
server that has imported everything and run nothing: it runs the same code, and a kill takes a third of the time.
"""

import contextlib
import ctypes
import dataclasses
import functools
import importlib
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE_S = 1800.0
"""Time limit of a command; one that takes longer is considered hung."""

_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH, _PR_CAPBSET_DROP = 1, 2, 24
"""Constants of Linux."""

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["tests.faults.preload"])


@dataclasses.dataclass(frozen=True)
class Command:
    """A command line and the environment that its process is made to see."""

    name: str
    """Name of the command, such as `t2t-trainer`."""
    flags: tuple[str, ...]
    module: str = ""
    """Module of `t2t.cli` for a warm start; empty if the command must start cold."""
    script: str = ""
    """Path in the checkout of a script to run instead of `bin/<name>`; empty for none."""
    clock_off_s: float = 0.0
    """Seconds by which the system clock jumps after the process has read it for the first time; warm starts only."""
    environment: tuple[tuple[str, str], ...] = ()
    """Environment variables in addition to those of this process."""
    obeys_permissions: bool = False
    """Whether file permissions apply even to root; implies a cold start."""

    def start(self, log: Path, cold: bool = False) -> "Process":
        """Starts the command; its output is appended to a log."""
        if cold or self.obeys_permissions or not self.module:
            return Process(_start_cold(self, log), log)
        child = _forks.Process(target=_run_warm, args=(self, str(log)))
        child.start()
        return Process(child, log)


class Process:
    """A running command.

    Args:
        child: process object of `subprocess` or `multiprocessing`.
        log: file of its output.
    """

    def __init__(self, child, log: Path):
        self._child, self.log, self.pid = child, log, child.pid
        self._is_cold = isinstance(child, subprocess.Popen)

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self._child.poll() is not None if self._is_cold else not self._child.is_alive()

    def send(self, number: int) -> None:
        """Sends a signal if it still runs; to a cold process's whole group if SIGINT, as Ctrl-C in a terminal does."""
        to_all = self._is_cold and number == signal.SIGINT
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if to_all else os.kill)(self.pid, number)

    def end(self) -> None:
        """Kills it if it still runs, and waits for its end."""
        self.send(signal.SIGKILL)
        self.wait()

    def wait(self, seconds: float = PATIENCE_S) -> int:
        """Returns its exit status as a shell gives it: 128 + n where signal n ended it.

        Raises:
            TimeoutError: it did not end in time, and was killed.
        """
        if not self.waited(lambda: self.ended, seconds):
            self.send(signal.SIGKILL)
            raise TimeoutError(f"process {self.pid} did not end within {seconds:.0f} s, see {self.log}")
        status = self._child.returncode if self._is_cold else self._child.exitcode
        return status if status >= 0 else 128 - status

    def waited(self, until: Callable[[], bool], seconds: float = PATIENCE_S) -> bool:
        """Polls a condition; returns whether it became true within the time limit."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            if until():
                return True
            time.sleep(0.003)
        return False


def jumped_mark(log: Path) -> Path:
    """Returns the file whose existence shows that the process with this log has read the wrong time."""
    return log.with_suffix(".jumped")


def _start_cold(command: Command, log: Path) -> subprocess.Popen:
    with log.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, str(ROOT / (command.script or f"bin/{command.name}")), *command.flags],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), **dict(command.environment)},
            preexec_fn=functools.partial(_begin, command),
        )  # fmt: skip


def _begin(command: Command) -> None:
    """Enables SIGINT, which shells ignore in background jobs; may drop root's capability to bypass permissions."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if command.obeys_permissions:
        libc = ctypes.CDLL(None)
        for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
            libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


def _run_warm(command: Command, log: str) -> None:
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.environ.update(command.environment)
    _begin(command)
    with clock(command.clock_off_s, jumped_mark(Path(log))):
        sys.exit(importlib.import_module(command.module).main([command.name, *command.flags]))


@contextlib.contextmanager
def clock(off_s: float, mark: Path) -> Iterator[None]:
    """Lets `time.time` jump after its first call; the second call, the first wrong one, creates the file `mark`."""
    real, calls = time.time, itertools.count()

    def jumping() -> float:
        call = next(calls)
        if call == 1:
            mark.touch()
        return real() + off_s * (call > 0)

    if off_s:
        time.time = jumping
    try:
        yield
    finally:
        time.time = real
