"""Turns signals that stop a command into exceptions, so that it cleans up and reports the signal.

Training waits for the end of an update, see `t2t.training.callbacks.signals`.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class StoppedError(BaseException):
    """The process was asked to stop; a BaseException, as KeyboardInterrupt is."""

    def __init__(self, number: int):
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_status = 128 + number  # as a shell reports it


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Raises StoppedError inside a `with` block when a signal arrives; the same signal again ends the process at once.

    Ctrl-C raises KeyboardInterrupt as usual. Signals that are ignored (SIGHUP under nohup) or have another handler are
    left alone. Libraries such as Keras may swallow the exception and fail later, so any error that escapes the block
    after a signal is replaced by the exception of the signal.
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
    """Returns the stop signals that still have their default handlers; none outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    usual = dict.fromkeys(SIGNALS, signal.SIG_DFL) | {signal.SIGINT: signal.default_int_handler}
    return {number: handler for number, handler in usual.items() if signal.getsignal(number) == handler}
