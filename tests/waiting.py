"""Waits of tests: each has a limit, so that what never comes fails its own test and keeps no other waiting."""

import threading
import time
from collections.abc import Callable

LIMIT_S = 120.0
"""Nothing that a test waits for takes so long, even on a busy machine."""


def wait_until(is_so: Callable[[], bool], what: str, seconds: float = LIMIT_S) -> None:
    """Asks again and again whether something is so.

    Raises:
        AssertionError: it did not become so; the message says what.
    """
    limit = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < limit, f"{what}: not so after {seconds:g} s"
        time.sleep(0.01)


def start_thread(target: Callable[..., object], *args: object) -> threading.Thread:
    """Starts a thread that keeps no process from ending."""
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
