"""The metrics of a run as columns of numbers, read incrementally while training writes them.

Legend: P points of a metric, N lines with the same names of metrics, C columns of these.
"""

import contextlib
import json
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from t2t.checkpoints.run_dir import plausible_number
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.files.remote.mirror import fetch

STEP, TIME = "step", "time"


class Points(NamedTuple):
    """One metric of a run, in order of updates; of a repeated update the last."""

    updates: np.ndarray
    """(P,) int64."""
    times: np.ndarray
    """(P,) float64, seconds since 1970."""
    values: np.ndarray
    """(P,) float64, finite."""


class RunFigures:
    """The metrics in the `metrics.jsonl` of a run.

    `read` only reads the complete lines added since the last call, so that refreshing a run in training is cheap.
    """

    def __init__(self, file: Path):
        self._file = file
        self._identity: tuple[int, int] | None = None
        self._forget()

    def _forget(self) -> None:
        self._end = self._count = 0
        # Lines with the same names form a matrix; a row is the line number, then the values in the order of the names.
        self._rows: dict[tuple[str, ...], list[list[Any]]] = {}
        self._matrices: dict[tuple[str, ...], np.ndarray] = {}
        self._points: dict[str, Points] = {}

    @property
    def size(self) -> int:
        """Number of bytes read; it changes when there is new data."""
        return self._end

    def read(self) -> None:
        """Reads the lines added since the last call; starts again if the file was replaced or truncated.

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
                file.seek(self._end)
                added = file.read()
        whole = added[: added.rfind(b"\n") + 1]
        if whole:
            self._end += len(whole)
            for values in _parse(whole):
                self._add(values)
            self._points.clear()

    def _add(self, values: Any) -> None:
        if not isinstance(values, dict) or type(values.get(STEP)) is not int:
            return
        if plausible_number(values[STEP]) is None or plausible_number(values.get(TIME)) is None:
            return
        names = tuple(values)
        self._rows.setdefault(names, []).append([self._count, *values.values()])
        self._count += 1

    def names(self) -> list[str]:
        """Returns the names of the metrics, sorted; one that was never finite has no points."""
        return sorted({name for names in self._rows for name in names} - {STEP, TIME})

    def points(self, name: str) -> Points:
        """Returns the points of a metric in `names()`."""
        if name not in self._points:
            # Line numbers, steps, times and values, (N, 4)
            places = {
                names: (0, *(1 + names.index(one) for one in (STEP, TIME, name)))
                for names in self._rows
                if name in names
            }
            table = np.concatenate([self._matrix(names)[:, columns] for names, columns in places.items()])
            table = table[np.isfinite(table[:, -1])]
            order = np.lexsort((table[:, 0], table[:, 1]))  # by step, then in the order of writing
            steps = table[order, 1]
            last = order[np.append(steps[1:] != steps[:-1], True)] if len(order) else order
            self._points[name] = Points(table[last, 1].astype(np.int64), table[last, 2], table[last, 3])
        return self._points[name]

    def _matrix(self, names: tuple[str, ...]) -> np.ndarray:
        """Returns the lines with these names, (N, C) float64; NaN for values that are not numbers."""
        rows, known = self._rows[names], self._matrices.get(names)
        done = 0 if known is None else len(known)
        if known is None or done < len(rows):
            added = _as_matrix(rows[done:])
            known = self._matrices[names] = added if known is None else np.concatenate([known, added])
            rows[:] = [[]] * len(rows)  # their values are in the matrix now
        return known

    def start(self) -> float:
        """Returns the time of the first line in seconds since 1970; 0 without lines."""
        return min((float(self._matrix(names)[0, 1 + names.index(TIME)]) for names in self._rows), default=0.0)


def _as_matrix(rows: list[list[Any]]) -> np.ndarray:
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        return np.array(rows, np.float64)  # None becomes NaN
    return np.array([[_number(value) for value in row] for row in rows], np.float64)


def _number(value: Any) -> float:
    is_number = type(value) in (int, float) and abs(value) < 1e300
    return float(value) if is_number else math.nan


def _parse(lines: bytes) -> list[Any]:
    """Parses lines of JSON; damaged lines are skipped."""
    with contextlib.suppress(ValueError, RecursionError):  # the usual case: one call is faster than one a line
        return json.loads(b"[" + b",".join(line for line in lines.split(b"\n") if line) + b"]")
    found = []
    for line in lines.split(b"\n"):
        with contextlib.suppress(ValueError, RecursionError):
            found.append(json.loads(line))
    return found
