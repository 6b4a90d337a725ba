"""The runs of a page: those named on the command line, and those found below folders."""

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from t2t.checkpoints.run_dir import RECORD_FILE, RunDir
from t2t.errors import UnknownNameError, did_you_mean
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.runs.overview import RunOverview, find_runs, overview_of
from t2t.studio.run_figures import RunFigures

LOOK_AGAIN_S = 5.0
"""Seconds after which folders are usually searched again for new runs."""


class NamedRun(NamedTuple):
    """A run, named on the command line or found below a folder."""

    path: Path
    last_update: int | None = None
    """Last update of its curves, for a run named by a checkpoint; None for all."""


class RunFolders:
    """Runs by name, with their metrics. Thread-safe; runs are opened on demand.

    The name of a run found below a folder is its path relative to that folder, as `printable` text.

    Args:
        named: name -> run.
        folders: folders to search for runs, repeatedly.
        look_again_s: seconds after which folders are searched again.
    """

    def __init__(self, named: Mapping[str, NamedRun], folders: Sequence[Path] = (), look_again_s: float = LOOK_AGAIN_S):
        self._named, self._folders, self._look_again_s = dict(named), list(folders), look_again_s
        self._lock = threading.RLock()
        self._looked: float | None = None
        self._runs: dict[str, NamedRun] = dict(named)
        self._opened: dict[Path, tuple[tuple[int, int], RunDir]] = {}
        self._figures: dict[Path, RunFigures] = {}

    def names(self) -> list[str]:
        """Returns the names of all runs, first those named on the command line."""
        with self._lock:
            self._look()
            return list(self._runs)

    def place(self, name: object) -> NamedRun:
        """Returns the location of a run by name; raises UnknownNameError."""
        with self._lock:
            self._look()
            if isinstance(name, str) and name in self._runs:
                return self._runs[name]
            near = did_you_mean(str(name), self._runs)
            raise UnknownNameError(
                f"run {str(name)[:200]!r} is not here", f"{near}{len(self._runs)} are, see the table"
            )

    def run(self, name: object) -> RunDir:
        """Returns a run by name, with its current record; raises UnknownNameError and the errors of `RunDir.open`."""
        path = self.place(name).path
        file = path / RECORD_FILE
        with self._lock, os_errors_as_machine_errors(f"cannot read {file}"):
            found = file.stat()
            identity = found.st_ino, found.st_mtime_ns
            if path not in self._opened or self._opened[path][0] != identity:
                self._opened[path] = identity, RunDir.open(path)
            return self._opened[path][1]

    def figures(self, name: str) -> RunFigures:
        """Returns the metrics of a run written so far; raises the errors of `run` and `RunFigures.read`."""
        run = self.run(name)
        with self._lock:
            figures = self._figures.setdefault(run.path, RunFigures(run.metrics_file))
            figures.read()
            return figures

    def overview(self) -> list[tuple[Path, RunOverview]]:
        """Returns the path, progress and scores of each run, including unreadable ones."""
        with self._lock:
            self._look()
            runs = dict(self._runs)
        # A run that was found, and deleted since, is left out.
        there = [name for name, run in runs.items() if name in self._named or (run.path / RECORD_FILE).exists()]
        return [(runs[name].path, overview_of(runs[name].path, name)) for name in there]

    def _look(self) -> None:
        """Searches the folders, at most every `look_again_s` seconds."""
        now = time.monotonic()
        if self._looked is None or now - self._looked >= self._look_again_s:
            self._looked = now
            self._runs = self._named | _found_runs(self._folders, self._named)


def _found_runs(folders: Sequence[Path], taken: Mapping[str, NamedRun]) -> dict[str, NamedRun]:
    """Returns the runs at and below folders by name; a run whose name is taken gets its whole path as the name."""
    found: dict[str, NamedRun] = {}
    for folder in folders:
        for path in find_runs(folder):
            name = printable(folder.name if path == folder else path.relative_to(folder).as_posix())
            if name in taken or found.get(name, NamedRun(path)).path != path:
                name = printable(str(path))
            found[name] = NamedRun(path)
    return found


def printable(text: str) -> str:
    r"""Returns a text that UTF-8 can represent: bytes of paths that are not UTF-8 are written as `\udcff`."""
    return text.encode("utf-8", "backslashreplace").decode()
