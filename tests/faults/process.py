"""Commands as real processes, which can be killed at any moment.

Python and TensorFlow take seconds to start. A cold process starts as a user's does. A warm one is forked from a server
that has imported everything and done nothing: what it runs is the same, and a kill costs a third of the time.
"""

import contextlib
import ctypes
import dataclasses
import functools
import importlib
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
"""No command here takes so long; one that does hangs."""

_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH, _PR_CAPBSET_DROP = 1, 2, 24
"""Of Linux."""

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["tests.faults.preload"])


@dataclasses.dataclass(frozen=True)
class Command:
    """A command line, and what its process is to believe."""

    name: str
    """`t2t-trainer` and the like."""
    flags: tuple[str, ...]
    module: str = ""
    """Of `t2t.cli`, for a warm start; empty where only a cold one is the real thing."""
    script: str = ""
    """In the checkout, in place of the command's own; empty for that."""
    clock_off_s: float = 0.0
    """How far the clock of the wall jumps, half a second after the start; warm starts only."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables that it sees besides those of this process."""
    obeys_permissions: bool = False
    """Whether permissions bind it though it is root's; its start is a cold one."""

    def start(self, log: Path, cold: bool = False) -> "Process":
        """Starts it; what it prints goes to the end of a file."""
        if cold or self.obeys_permissions or not self.module:
            return Process(_start_cold(self, log), log)
        child = _forks.Process(target=_run_warm, args=(self, str(log)))
        child.start()
        return Process(child, log)


class Process:
    """A command that runs.

    Args:
        child: of `subprocess` or `multiprocessing`.
        log: what it prints.
    """

    def __init__(self, child, log: Path):
        self._child, self.log, self.pid = child, log, child.pid
        self._is_cold = isinstance(child, subprocess.Popen)

    @property
    def ended(self) -> bool:
        """Returns whether it is over."""
        return self._child.poll() is not None if self._is_cold else not self._child.is_alive()

    def send(self, number: int) -> None:
        """Sends a signal, if it is still there; Ctrl-C also to the processes that it started, as a terminal does."""
        to_all = self._is_cold and number == signal.SIGINT
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if to_all else os.kill)(self.pid, number)

    def end(self) -> None:
        """Kills it, if it is still there."""
        self.send(signal.SIGKILL)
        self.wait()

    def wait(self, seconds: float = PATIENCE_S) -> int:
        """Returns its exit status as a shell gives it: 128 + n where signal n ended it.

        Raises:
            TimeoutError: it did not end; it is killed.
        """
        if not self.waited(lambda: self.ended, seconds):
            self.send(signal.SIGKILL)
            raise TimeoutError(f"process {self.pid} did not end within {seconds:.0f} s, see {self.log}")
        status = self._child.returncode if self._is_cold else self._child.exitcode
        return status if status >= 0 else 128 - status

    def waited(self, until: Callable[[], bool], seconds: float = PATIENCE_S) -> bool:
        """Looks again and again whether something is so; returns whether it came before the time was over."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            if until():
                return True
            time.sleep(0.003)
        return False


def jumped_mark(log: Path) -> Path:
    """Returns the file that shows that the process of a log has read a time that was off."""
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
    """Hears Ctrl-C, which what a shell starts in the background ignores; may give up that root may do everything."""
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
    with _clock(command.clock_off_s, jumped_mark(Path(log))):
        sys.exit(importlib.import_module(command.module).main([command.name, *command.flags]))


@contextlib.contextmanager
def _clock(off_s: float, mark: Path) -> Iterator[None]:
    """Lets the clock of the wall jump, as Python sees it, half a second from now; the first look at it leaves a mark.

    The last look is that of the process as it ends.
    """
    real, jump, seen = time.time, time.monotonic() + 0.5, False

    def jumping() -> float:
        nonlocal seen
        if time.monotonic() <= jump:
            return real()
        if not seen:
            seen = True
            mark.touch()
        return real() + off_s

    if off_s:
        time.time = jumping
    try:
        yield
    finally:
        time.time()
        time.time = real
