"""How far a long job has come: a bar on a terminal, now and then a line elsewhere.

A line that cannot be shown, since the terminal is gone or the disk of the log is full, ends no job.
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
"""Columns of the bar itself, below which something else is left out of its line."""
_SPARKS = "▁▂▃▄▅▆▇█"


class Progress:
    """Counts what a job has done, and shows it with its rate and, where the end is known, the time left.

    Args:
        what: what is being done; stands first.
        unit: what is counted, in the plural.
        total: how many there are; None where that is not known.
        done: of them, those that are done already; they do not count in the rate.
        out: a bar is drawn where this is a terminal; None for stderr. Lines go to the log.
        seconds: at least so many pass between two lines.
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
        """Counts so many more as done."""
        self.move_to(self._done + count)

    def move_to(self, done: int) -> None:
        """Counts so many as done in all; elsewhere than on a terminal, logs a line where it is time to."""
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
        """Puts figures behind the bar, where there is one: as many as its line has room for, the first ones first."""
        if self._bar is not None:
            with contextlib.suppress(OSError):
                self._bar.figures = figures
                self._bar.refresh()

    def rate(self) -> float:
        """Returns how many were done in a second since the job began, or went on."""
        return (self._done - self._first) / max(time.monotonic() - self._began, 1e-9)

    def time_left(self) -> str | None:
        """Returns hours, minutes and seconds to the end, None where that or the rate is not known yet."""
        rate = self.rate()
        return clock((self._total - self._done) / rate) if self._total is not None and rate > 0 else None

    def __str__(self) -> str:
        of = "" if self._total is None else f" of {self._total:,}"
        left = self.time_left()
        ending = f", {left} left" if left else ""
        return f"{self._what}: {self._done:,}{of} {self._unit}, {self.rate():,.1f} {self._unit}/s{ending}"

    def close(self) -> None:
        """Leaves the bar as it stands."""
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
    """Returns the class of bars; commands that draw none start without tqdm."""
    from tqdm import tqdm
    from tqdm.utils import disp_len

    class ProgressBar(tqdm):  # type: ignore[misc]  # tqdm has no types
        """tqdm's bar on a line of any width: what is least important is left out, where tqdm cuts the line off."""

        figures: Sequence[str] = ()

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
    """Yields tqdm's formats of a line with the figures in it, each shorter than the one before."""
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
    """Returns a length of time as hours:minutes:seconds."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"


def spark_line(values: Sequence[float], width: int) -> str:
    """Returns a curve of a character a value, ▁ for the least and █ for the largest, ▁ where all are equal.

    Of more than `width` values, each character is the mean of some that follow each other. Those that are not finite
    are left out.
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
    tqdm = getattr(sys.modules.get("tqdm"), "tqdm", None)  # whoever shows a bar has imported it
    return tqdm.external_write_mode(file=out) if tqdm else contextlib.nullcontext()
