"""Progress of long jobs: a bar on a terminal; elsewhere a log line now and then.

A job continues even if a line cannot be shown because the terminal is gone or the disk of the log is full.
"""

import contextlib
import functools
import itertools
import logging
import math
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TextIO

log = logging.getLogger("t2t")

SECONDS_BETWEEN_LINES = 30.0
_SHORTEST_BAR = 6
"""Smallest width of the bar itself, in columns; other parts of its line are left out to keep it."""
_SPARKS = "▁▂▃▄▅▆▇█"


class Progress:
    """Counts the finished units of a job; shows the count, the rate and, if the total is known, the time left.

    Args:
        what: name of the job; shown first.
        unit: what is counted, in the plural.
        total: number of units; None if it is not known.
        done: number of units that were done before; they do not count in the rate.
        out: a bar is drawn if this is a terminal; None for stderr. Lines go to the log.
        seconds: least number of seconds between two lines.
    """

    def __init__(
        self,
        what: str,
        unit: str,
        total: int | None = None,
        done: int = 0,
        *,
        out: TextIO | None = None,
        seconds: float = SECONDS_BETWEEN_LINES,
    ):
        self._what, self._unit, self._total = what, unit, total
        self._first = self._done = done
        self._out = out or sys.stderr
        self._seconds = seconds
        self._began = self._last_line = time.monotonic()
        self._bar = self._draw() if self._out.isatty() else None

    @property
    def on_terminal(self) -> bool:
        """Whether a bar is drawn."""
        return self._bar is not None

    def add(self, count: int) -> None:
        """Adds `count` units to those done."""
        self.move_to(self._done + count)

    def move_to(self, done: int) -> None:
        """Sets the number of units done; if there is no bar, logs a line when it is time to."""
        self._done = done
        if self._bar is not None:
            with contextlib.suppress(OSError):
                self._bar.update(done - self._bar.n)
            return
        now = time.monotonic()
        if now - self._last_line >= self._seconds:
            self._last_line = now
            log.info("%s", self)

    def show_figures(self, figures: Sequence[str]) -> None:
        """Shows figures behind the bar, if there is one: from the first on, as many as fit into its line."""
        if self._bar is not None:
            with contextlib.suppress(OSError):
                self._bar.figures = figures
                self._bar.refresh()

    def rate(self) -> float:
        """Returns the units done per second since the job began or was resumed."""
        return (self._done - self._first) / max(time.monotonic() - self._began, 1e-9)

    def time_left(self) -> str | None:
        """Returns the time to the end as hours:minutes:seconds; None if the total or the rate is not known yet."""
        rate = self.rate()
        return clock((self._total - self._done) / rate) if self._total is not None and rate > 0 else None

    def __str__(self) -> str:
        of = "" if self._total is None else f" of {self._total:,}"
        left = self.time_left()
        ending = f", {left} left" if left else ""
        return f"{self._what}: {self._done:,}{of} {self._unit}, {self.rate():,.1f} {self._unit}/s{ending}"

    def close(self) -> None:
        """Ends the bar and leaves it on the screen as it is."""
        if self._bar is not None:
            with contextlib.suppress(OSError):
                self._bar.close()
            self._bar = None

    def _draw(self) -> Any:
        return _bar_class()(
            desc=self._what, unit=f" {self._unit}", total=self._total, initial=self._done, file=self._out,
            unit_scale=self._total is None, dynamic_ncols=True, smoothing=0.05,
        )  # fmt: skip


@functools.cache
def _bar_class() -> type:
    """Returns the class of bars; imports tqdm only when a bar is drawn."""
    from tqdm import tqdm
    from tqdm.utils import disp_len

    class ProgressBar(tqdm):  # type: ignore[misc]  # tqdm has no types
        """tqdm's bar, but on a narrow line it omits the least important parts, where tqdm cuts the line off."""

        figures: Sequence[str] = ()
        monitor_interval = 0
        """0 = no thread that watches bars: it would outlive them, and a process with threads may not be forked."""

        def __str__(self) -> str:
            values = self.format_dict
            width = values["ncols"] - 1 if values["ncols"] else None  # some terminals wrap at their last column
            for line, figures in _formats(self.total is not None, self.figures):
                values |= {"bar_format": line.replace("{bar}", ""), "postfix": ", ".join(figures), "ncols": None}
                needed = disp_len(self.format_meter(**values)) + _SHORTEST_BAR * ("{bar}" in line)
                if width is None or needed <= width:
                    break
            drawn: str = self.format_meter(**values | {"bar_format": line, "ncols": width})
            return drawn

    return ProgressBar


def _formats(known_end: bool, figures: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yields tqdm's line formats with the figures to show in them, each shorter than the one before."""
    done, times = ("{l_bar}{bar}| {n_fmt}/{total_fmt}", "{elapsed}<{remaining}") if known_end else (
        "{desc}: {n_fmt}{unit}", "{elapsed}"
    )  # fmt: skip
    for count in range(len(figures), -1, -1):
        if count or not figures:
            yield f"{done} [{times}, {{rate_noinv_fmt}}{{postfix}}]", figures[:count]
    yield f"{done} [{times}{{postfix}}]", figures[:1]
    yield f"{done} [{times}]", ()
    yield done, ()


def clock(seconds: float) -> str:
    """Formats a duration as hours:minutes:seconds."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"


def about(seconds: float) -> str:
    """Formats a rough duration: 40 s, 14 min, 5.2 h, 3.4 days."""
    for size, most, unit in ((1, 90, "s"), (60, 90, "min"), (3600, 48, "h")):
        if seconds < most * size:
            return f"{max(seconds / size, 1):.{int(unit == 'h')}f} {unit}"
    return f"{seconds / 86_400:.1f} days"


def spark_line(values: Sequence[float], width: int) -> str:
    """Returns a curve with one character per value, from ▁ for the smallest to █ for the largest; ▁ if all are equal.

    If there are more than `width` values, each character is the mean of several consecutive ones. Values that are not
    finite are left out.
    """
    finite = [value for value in values if math.isfinite(value)]
    count = min(width, len(finite))
    cuts = [len(finite) * place // count for place in range(count + 1)] if count else []
    means = [statistics.fmean(finite[first:last]) for first, last in itertools.pairwise(cuts)]
    if not means:
        return ""
    least, spread = min(means), max(means) - min(means)
    return "".join(_SPARKS[round((value - least) / spread * (len(_SPARKS) - 1)) if spread else 0] for value in means)


def write_line(text: str, out: TextIO) -> None:
    """Writes a line to `out`, above the bars on the same terminal."""
    with contextlib.suppress(OSError), write_above_bars(out):
        print(text, file=out, flush=True)


def write_above_bars(out: TextIO) -> AbstractContextManager[Any]:
    """Clears the bars that share a terminal with `out` during a `with` block, and redraws them after it."""
    tqdm = getattr(sys.modules.get("tqdm"), "tqdm", None)  # imported already if there is a bar
    return tqdm.external_write_mode(file=out) if tqdm else contextlib.nullcontext()
