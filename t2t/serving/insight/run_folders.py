"""The runs that a page is about: those that were named, and those found below folders, however many."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from t2t.checkpoints.run_dir import RECORD_FILE, RunDir
from t2t.errors import UnknownNameError, did_you_mean
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.runs.overview import RunOverview, find_runs, overview_of
from t2t.serving.insight.run_figures import RunFigures

LOOK_AGAIN_S = 5.0
"""Seconds after which folders are searched again for runs that have begun."""


class NamedRun(NamedTuple):
    """A run that was named on the command line."""

    path: Path
    last_update: int | None = None
    """Where its curves end, of a run that was named by a checkpoint."""


class RunFolders:
    """Runs by name, with their figures; safe to use from several threads. Nothing is opened before it is asked for.

    A run found below a folder is called by its path from there.

    Args:
        named: name -> run.
        folders: searched for runs again and again.
        clock: gives seconds.
    """

    def __init__(
        self,
        named: Mapping[str, NamedRun],
        folders: Sequence[Path] = (),
        clock: Callable[[], float] = time.monotonic,
    ):
        self._named, self._folders, self._clock = dict(named), list(folders), clock
        self._lock = threading.RLock()
        self._looked: float | None = None
        self._runs: dict[str, NamedRun] = dict(named)
        self._opened: dict[Path, tuple[tuple[int, int], RunDir]] = {}
        self._figures: dict[Path, RunFigures] = {}

    def names(self) -> list[str]:
        """Returns the names of all runs, those that were named first."""
        with self._lock:
            self._look()
            return list(self._runs)

    def place(self, name: object) -> NamedRun:
        """Returns where the run of a name is; raises UnknownNameError."""
        with self._lock:
            self._look()
            if isinstance(name, str) and name in self._runs:
                return self._runs[name]
            near = did_you_mean(str(name)[:200], self._runs)
            raise UnknownNameError(f"run {str(name)[:200]!r} is not here; {near}{len(self._runs)} are, see the table")

    def run(self, name: object) -> RunDir:
        """Returns the run of a name, as its record is now; raises UnknownNameError, and as `RunDir.open`."""
        path = self.place(name).path
        file = path / RECORD_FILE
        with self._lock, os_errors_as_machine_errors(f"cannot read {file}"):
            found = file.stat()
            identity = found.st_ino, found.st_mtime_ns
            if path not in self._opened or self._opened[path][0] != identity:
                self._opened[path] = identity, RunDir.open(path)
            return self._opened[path][1]

    def figures(self, name: str) -> RunFigures:
        """Returns the figures of a run with all that has been written so far; raises as `run` and `RunFigures.read`."""
        run = self.run(name)
        with self._lock:
            figures = self._figures.setdefault(run.path, RunFigures(run.metrics_file))
            figures.read()
            return figures

    def overview(self) -> list[RunOverview]:
        """Returns how far each run is and how well it does; one that cannot be read is among them."""
        return [overview_of(self.place(name).path, name) for name in self.names()]

    def _look(self) -> None:
        """Searches the folders, unless that was done a moment ago."""
        now = self._clock()
        if self._looked is None or now - self._looked >= LOOK_AGAIN_S:
            self._looked = now
            self._runs = self._named | _found_runs(self._folders, self._named)


def _found_runs(folders: Sequence[Path], taken: Mapping[str, NamedRun]) -> dict[str, NamedRun]:
    """Returns the runs at and below folders; one of two that would have the same name is called by its whole path."""
    found: dict[str, NamedRun] = {}
    for folder in folders:
        for path in find_runs(folder):
            name = folder.name if path == folder else path.relative_to(folder).as_posix()
            if name in taken or found.get(name, NamedRun(path)).path != path:
                name = str(path)
            found[name] = NamedRun(path)
    return found
