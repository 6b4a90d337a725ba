"""Commands that are asked to stop by the system: preempted, timed out, their terminal closed.

Python would end at once, with what it is about half done. Here it is an exception, so that a command cleans up after
itself and says what has stopped it. Training waits for the end of an update, see `t2t.training.callbacks.signals`.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

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

    Ctrl-C raises KeyboardInterrupt as ever. Signals that are ignored, as SIGHUP is under nohup, or that somebody else
    handles, stay so.

    A library that catches whatever is raised, as Keras does in places, may swallow the exception and fail later for
    want of what it was about to compute: any error after a signal is the signal's.
    """
    received: list[int] = []

    def stop(number: int, frame: object) -> None:
        received.append(number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        signal.signal(number, signal.SIG_DFL)
        raise StoppedError(number)

    before = _usual_handlers()
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    except Exception as error:
        if not received:
            raise
        raise (KeyboardInterrupt if received[-1] == signal.SIGINT else StoppedError(received[-1])) from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _usual_handlers() -> dict[int, Any]:
    """Returns what happens at the signals that nobody has taken over; no thread but the main one may do that."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    usual = dict.fromkeys(SIGNALS, signal.SIG_DFL) | {signal.SIGINT: signal.default_int_handler}
    return {number: handler for number, handler in usual.items() if signal.getsignal(number) == handler}
