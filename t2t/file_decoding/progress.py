"""How far a file has been decoded or scored: a bar on a terminal, now and then a line elsewhere."""

import logging
import sys
import time

from tqdm import tqdm

log = logging.getLogger("t2t")

SECONDS_BETWEEN_LINES = 15.0


def default_progress(total: int | None, done: int, verb: str = "decoded") -> "Bar | Lines":
    """Returns a bar where stderr is a terminal, else lines.

    Args:
        total: lines of the input, None where that is not known.
        done: of them, those that an earlier attempt has done.
        verb: what is done to them.
    """
    return Bar(total, done, verb) if sys.stderr.isatty() else Lines(total, done, verb)


class Bar:
    """A bar with sentences per second and time left."""

    def __init__(self, total: int | None, done: int, verb: str = "decoded"):
        self._bar = tqdm(total=total, initial=done, unit=" sentences", desc=verb, dynamic_ncols=True)

    def add(self, sentences: int) -> None:
        """Counts sentences as done."""
        self._bar.update(sentences)

    def close(self) -> None:
        """Leaves the bar as it stands."""
        self._bar.close()


class Lines:
    """A log line at most every quarter of a minute."""

    def __init__(self, total: int | None, done: int, verb: str = "decoded", seconds: float = SECONDS_BETWEEN_LINES):
        self._verb = verb
        self._of = f" of {total:,}" if total is not None else ""
        self._first, self._done, self._seconds = done, done, seconds
        self._began = self._last = time.monotonic()

    def add(self, sentences: int) -> None:
        """Counts sentences as done, and logs where it is time to."""
        self._done += sentences
        now = time.monotonic()
        if now - self._last >= self._seconds:
            self._last = now
            rate = (self._done - self._first) / (now - self._began)
            log.info("%s %s%s lines, %.1f sentences/s", self._verb, f"{self._done:,}", self._of, rate)

    def close(self) -> None:
        """Does nothing."""
