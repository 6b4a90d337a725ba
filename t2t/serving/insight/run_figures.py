"""The figures of a run as columns of numbers, read on while training writes them.

Legend: P points of a figure.
"""

import contextlib
import json
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from t2t.files.atomic import os_errors_as_machine_errors
from t2t.files.remote.mirror import fetch

STEP, TIME = "step", "time"


class Points(NamedTuple):
    """One figure of a run, in order of updates; of a repeated update the last."""

    updates: np.ndarray
    """(P,) int64."""
    times: np.ndarray
    """(P,) float64, seconds since 1970."""
    values: np.ndarray
    """(P,) float64, finite."""


class RunFigures:
    """The figures in the `metrics.jsonl` of a run.

    `read` takes up what has been added since the last time, without what is half-written, so that looking again at a
    run in training costs little.

    Args:
        file: of the figures.
        tail: bytes at its end that are read at first; None for all of it.
    """

    def __init__(self, file: Path, tail: int | None = None):
        self._file, self._tail = file, tail
        self._identity: tuple[int, int] | None = None
        self._forget()

    def _forget(self) -> None:
        self._end = 0
        self._lines: dict[str, list[tuple[int, float, float]]] = {}
        self._points: dict[str, Points] = {}

    @property
    def size(self) -> int:
        """Bytes that have been read: another number says that there is something new."""
        return self._end

    def read(self) -> None:
        """Takes up what has been added; begins again where the file is another one.

        Raises:
            MachineError: the file cannot be read.
        """
        with os_errors_as_machine_errors(f"cannot read {self._file}"):
            fetch(self._file)
            try:
                file = self._file.open("rb")
            except FileNotFoundError:
                self._forget()
                return
            with file:
                found = os.fstat(file.fileno())
                identity = found.st_dev, found.st_ino
                if identity != self._identity or found.st_size < self._end:
                    self._forget()
                    self._identity = identity
                    if self._tail is not None and found.st_size > self._tail:
                        file.seek(found.st_size - self._tail)
                        self._end = file.tell() + len(file.readline())
                file.seek(self._end)
                added = file.read()
        whole = added[: added.rfind(b"\n") + 1]
        self._end += len(whole)
        for values in _parse(whole):
            self._add(values)

    def _add(self, values: Any) -> None:
        if not isinstance(values, dict) or type(values.get(STEP)) is not int:
            return
        step, time = values[STEP], _number(values.get(TIME))
        for name, value in values.items():
            if name != STEP and name != TIME and (number := _number(value)) is not None:
                self._lines.setdefault(name, []).append((step, time or 0.0, number))
                self._points.pop(name, None)

    def names(self) -> list[str]:
        """Returns the names of the figures, sorted."""
        return sorted(self._lines)

    def points(self, name: str) -> Points:
        """Returns the points of a figure of `names`."""
        if name not in self._points:
            table = np.array(self._lines[name], np.float64)
            order = np.argsort(table[:, 0], kind="stable")
            steps = table[order, 0]
            last = order[np.append(steps[1:] != steps[:-1], True)]
            self._points[name] = Points(table[last, 0].astype(np.int64), table[last, 1], table[last, 2])
        return self._points[name]

    def start(self) -> float:
        """Returns the time of the earliest point in seconds since 1970; 0 for no figures."""
        return min((float(self.points(name).times.min()) for name in self._lines), default=0.0)


def _number(value: Any) -> float | None:
    """Returns a finite number as float, None for anything else."""
    is_number = type(value) in (int, float) and math.isfinite(value)
    return float(value) if is_number else None


def _parse(lines: bytes) -> list[Any]:
    """Returns what lines of JSON hold, without those that are damaged."""
    with contextlib.suppress(ValueError, RecursionError):  # the usual case: one call is faster than one a line
        return json.loads(b"[" + b",".join(line for line in lines.split(b"\n") if line) + b"]")
    found = []
    for line in lines.split(b"\n"):
        with contextlib.suppress(ValueError, RecursionError):
            found.append(json.loads(line))
    return found
