"""Polls for new checkpoints, or for files made from them."""

import time
from collections.abc import Callable, Iterable, Iterator

PAUSE_S = 10.0
"""Seconds between polls."""


def steps_as_they_appear(
    list_steps: Callable[[], Iterable[int]], min_steps: int = 0, wait_minutes: float = 0.0, pause_s: float = PAUSE_S
) -> Iterator[int]:
    """Yields each step once, always the smallest pending one, until none has appeared for `wait_minutes`."""
    done: set[int] = set()
    deadline = time.monotonic() + 60 * wait_minutes
    while True:
        new = [step for step in list_steps() if step >= min_steps and step not in done]
        if new:
            done.add(min(new))
            yield min(new)
            deadline = time.monotonic() + 60 * wait_minutes
        elif time.monotonic() >= deadline:
            return
        else:
            time.sleep(min(pause_s, max(0.0, deadline - time.monotonic())))
