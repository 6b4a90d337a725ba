"""The runs that a page is about: those that were named, and those found below folders, however many."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from t2t.checkpoints.run_dir import RECORD_FILE, RunDir
from t2t.errors import T2TError, UnknownNameError, did_you_mean
from t2t.serving.insight.run_figures import RunFigures

LOOK_AGAIN_S = 5.0
"""Seconds after which folders are searched again for runs that have begun."""


class NamedRun(NamedTuple):
    """A run that was named on the command line."""

    run: RunDir
    last_update: int | None = None
    """Where its curves end, of a run that was named by a checkpoint."""


class RunFolders:
    """Runs by name, with their figures; safe to use from several threads.

    A run found below a folder is called by its path from there. One whose record cannot be read is left out until it
    can.

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
        self._lock = threading.Lock()
        self._looked: float | None = None
        self._paths: dict[str, Path] = {}
        self._opened: dict[str, tuple[tuple[int, int], RunDir]] = {}
        self._figures: dict[str, RunFigures] = {}

    def names(self) -> list[str]:
        """Returns the names of all runs, those that were named first."""
        with self._lock:
            self._look()
            return [*self._named, *self._opened]

    def run(self, name: object) -> NamedRun:
        """Returns the run of a name, as its record is now; raises UnknownNameError."""
        with self._lock:
            self._look()
            if isinstance(name, str) and name in self._named:
                return self._named[name]
            if isinstance(name, str) and name in self._opened:
                return NamedRun(self._opened[name][1])
            known = [*self._named, *self._opened]
        near = did_you_mean(str(name)[:200], known)
        raise UnknownNameError(f"run {str(name)[:200]!r} is not here; {near}there are {len(known)}; see the table of runs")

    def figures(self, name: str) -> RunFigures:
        """Returns the figures of a run, with all that has been written so far; raises as `run` and `RunFigures.read`."""
        run = self.run(name).run
        with self._lock:
            figures = self._figures.setdefault(name, RunFigures(run.metrics_file))
            figures.read()
            return figures

    def _look(self) -> None:
        """Searches the folders, unless that was done a moment ago."""
        now = self._clock()
        if self._looked is not None and now - self._looked < LOOK_AGAIN_S:
            return
        self._looked = now
        opened = {}
        for name, path in _named_paths(self._folders, self._named).items():
            found = _open(path, self._opened.get(name))
            if found is not None:
                opened[name] = found
        self._opened = opened


def _open(path: Path, before: tuple[tuple[int, int], RunDir] | None) -> tuple[tuple[int, int], RunDir] | None:
    """Returns what tells a record from a later one, and the run; None where it cannot be read."""
    try:
        found = (path / RECORD_FILE).stat()
        identity = found.st_ino, found.st_mtime_ns
        if before is not None and before[0] == identity:
            return before
        return identity, RunDir.open(path)
    except (T2TError, OSError):  # it has just gone or is damaged; other runs are shown all the same
        return None


def _named_paths(folders: Sequence[Path], taken: Mapping[str, NamedRun]) -> dict[str, Path]:
    """Returns name -> path of the runs below folders, a run that is found twice once."""
    found: dict[str, Path] = {}
    for folder in folders:
        for path in find_runs(folder):
            name = folder.name if path == folder else path.relative_to(folder).as_posix()
            if name in taken or found.get(name, path) != path:
                name = str(path)
            found.setdefault(name, path)
    return found


def find_runs(folder: Path) -> Iterator[Path]:
    """Yields the folders of runs at or below a folder, in order of their names; links to folders are not followed."""
    for place, folders, files in os.walk(folder):
        folders.sort()
        if RECORD_FILE in files:
            folders.clear()
            yield Path(place)
