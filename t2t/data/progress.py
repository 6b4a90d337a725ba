"""Saying how far a long job has come: a bar on a terminal, now and then a line elsewhere."""

import logging
import sys
import time

from tqdm import tqdm

log = logging.getLogger("t2t")

SECONDS_BETWEEN_LINES = 30.0


def default_progress() -> "BarProgress | LineProgress":
    """Returns a bar where stderr is a terminal, else lines."""
    return BarProgress() if sys.stderr.isatty() else LineProgress()


class BarProgress:
    """One bar a split."""

    def __init__(self) -> None:
        self._bar: tqdm | None = None
        self._split = ""

    def show(self, split: str, read: int) -> None:
        """Moves the bar of a split to the number of its examples read so far."""
        if split != self._split:
            self.close()
            self._split, self._bar = split, tqdm(desc=split, unit=" examples", unit_scale=True)
        self._bar.update(read - self._bar.n)

    def close(self) -> None:
        """Leaves the bar as it stands."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class LineProgress:
    """A log line at most every half minute."""

    def __init__(self, seconds: float = SECONDS_BETWEEN_LINES):
        self._seconds = seconds
        self._last = time.monotonic()

    def show(self, split: str, read: int) -> None:
        """Logs the number of examples read so far, if it is time to."""
        now = time.monotonic()
        if now - self._last >= self._seconds:
            self._last = now
            log.info("%s: %s examples read", split, f"{read:,}")

    def close(self) -> None:
        """Does nothing."""
