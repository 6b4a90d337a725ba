"""Commands that are asked to stop by the system: preempted, timed out, their terminal closed.

Python would end at once, with what it is about half done. Here it is an exception, so that a command cleans up after
itself and says what has stopped it. Training waits for the end of an update, see `t2t.training.callbacks.signals`.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class StoppedError(BaseException):
    """The process was asked to stop; like KeyboardInterrupt, nothing that handles errors sees it."""

    def __init__(self, number: int):
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_status = 128 + number
        """As a shell gives it for a process that the signal has ended."""


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Raises StoppedError in a `with` block when a signal comes; the same signal again ends the process at once.

    Signals that are ignored, as SIGHUP is under nohup, or that somebody else handles, stay so.
    """
    taken = []
    if threading.current_thread() is threading.main_thread():  # no other may handle signals
        taken = [number for number in SIGNALS if signal.getsignal(number) == signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _stop(number: int, frame: object) -> None:
    signal.signal(number, signal.SIG_DFL)
    raise StoppedError(number)
