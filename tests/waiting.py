"""Waiting with a time limit, so that an event that never occurs fails only its own test."""

import contextlib
import threading
import time
from collections.abc import Callable

LIMIT_S = 120.0
"""Limit in seconds, longer than any event that tests wait for takes on a busy machine."""


def wait_until(is_so: Callable[[], bool], what: str, seconds: float = LIMIT_S) -> None:
    """Polls until a condition holds.

    Raises:
        AssertionError: the time limit was exceeded; the message names the condition.
    """
    limit = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < limit, f"{what}: not so after {seconds:g} s"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Returns whether a process runs; one that has ended and is not reaped yet does not."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"
    return False


def start_thread(target: Callable[..., object], *args: object) -> threading.Thread:
    """Starts a daemon thread, which does not keep the process alive."""
    thread = threading.Thread(target=target, args=args, daemon=True)
    thread.start()
    return thread


def join_all(*threads: threading.Thread, seconds: float = LIMIT_S) -> None:
    """Waits until threads have ended.

    Raises:
        AssertionError: one of them has not.
    """
    limit = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, limit - time.monotonic()))
        assert not thread.is_alive(), f"{thread.name} still runs after {seconds:g} s"
