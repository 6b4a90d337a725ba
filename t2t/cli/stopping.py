"""Turns signals that stop a command into exceptions, so that it cleans up and reports the signal.

Training waits for the end of an update, see `t2t.training.callbacks.signals`.
"""

import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class StoppedError(BaseException):
    """The process was asked to stop; a BaseException, as KeyboardInterrupt is."""

    def __init__(self, number: int):
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_status = 128 + number  # as a shell reports it


def answer_interrupts() -> None:
    """Lets Ctrl-C end a command with its line and status also before and after `stoppable`: while it imports or exits.

    Where this process is no command, or another handler is installed, it does nothing.
    """
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    if name.startswith("t2t-") and "." not in name and signal.SIGINT in _usual_handlers():
        signal.signal(signal.SIGINT, _interrupted)
        # Last of all, Python restores the default effect, death by the signal, while libraries still clean up.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


def _interrupted(number: int, frame: object) -> None:
    """Ends the process at once; nothing is left to clean up."""
    with contextlib.suppress(OSError):
        os.write(2, f"{os.path.basename(sys.argv[0])}: interrupted\n".encode())
    os._exit(128 + number)


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
    found = {number: signal.getsignal(number) for number in (*SIGNALS, signal.SIGINT)}
    usual = {signal.SIGINT: (signal.default_int_handler, _interrupted)}
    return {number: handler for number, handler in found.items() if handler in usual.get(number, (signal.SIG_DFL,))}
