"""Runs a job repeatedly in separate folders and compares its results with those of an undisturbed run."""

import contextlib
import dataclasses
import itertools
import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.faults.jobs import Job, Made, differences
from tests.faults.process import Process, jumped_mark

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class Bench:
    """Runs one job, first undisturbed, and chooses the folders and random moments in which faults are injected.

    Args:
        job: what to run.
        folder: parent of all folders that the job writes to.
        seed: of the random moments.
    """

    def __init__(self, job: Job, folder: Path, seed: int):
        self.job, self._folder = job, folder
        self.rng = random.Random(f"{seed}/{job.name}")
        self._numbers, self.turns = itertools.count(), itertools.count()
        self.wanted: Made = {}
        """Results of an undisturbed process."""
        self.bytes = 0
        """Total size of these results."""
        self._cpu_s: dict[bool, float] = {}
        self._changes = 0

    def prepare(self) -> None:
        """Runs the job undisturbed, records its results and provides them to later jobs.

        Raises:
            AssertionError: the undisturbed job fails, so that no fault can be tested.
        """
        out = self._undisturbed(cold=self.job.is_cold_only)
        self.bytes = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
        self.job.keep_as_material(out)

    def folder(self) -> Path:
        """Returns a new folder."""
        name = self.job.name.replace(" ", "-")
        out = self._folder / f"{name}-{next(self._numbers)}"
        out.mkdir(parents=True)
        return out

    def clocks_jumped(self, out: Path) -> bool:
        """Returns whether any process that was started in a folder has read the wrong time."""
        return any(jumped_mark(log).exists() for log in _logs_of(out).glob("*.log"))

    def start(self, out: Path, cold: bool = False, **believed: Any) -> Process:
        """Starts the job; `believed` replaces fields of its `Command`."""
        logs = _logs_of(out)
        logs.mkdir(exist_ok=True)
        log = logs / f"{len(list(logs.iterdir()))}.log"
        return dataclasses.replace(self.job.command(out), **believed).start(log, cold)

    def start_and_wait(self, cold: bool = False, **believed: Any) -> tuple[Path, Process]:
        """Starts the job in a new folder and waits for a random moment of its processor time or of its changes there.

        Returns:
            The folder and the process, which may have ended.
        """
        cold = cold or self.job.is_cold_only
        if cold not in self._cpu_s:
            self._undisturbed(cold)
        wanted_s, wanted_changes = self.rng.uniform(0, self._cpu_s[cold]), self.rng.randint(1, self._changes)
        by_time = self.rng.random() < 0.5
        out = self.folder()
        process, watch = self.start(out, cold and "module" not in believed, **believed), _Changes(out)
        watch.until(process, lambda cpu_s, changes: cpu_s >= wanted_s if by_time else changes >= wanted_changes)
        return out, process

    def go_on(self, out: Path, keep: bool = False, **believed: Any) -> str:
        """Resumes a disturbed job in its folder until it ends; returns an error text, "" if the results are correct.

        Then the folder is deleted, unless `keep` is set.
        """
        process = self.start(out, **believed)
        if status := process.wait():
            return f"{out}: the same command then ends with status {status}: {last_line(process.log)}"
        wrong = differences(self.wanted, self.job.made(out))
        if not wrong and not keep:
            shutil.rmtree(out)
        return f"{out}: {wrong}" if wrong else ""

    @contextlib.contextmanager
    def mounted(self, *arguments: str) -> Iterator[None]:
        """Mounts a file system; the last argument is its folder."""
        subprocess.run(["mount", *arguments], check=True, capture_output=True)
        try:
            yield
        finally:
            subprocess.run(["umount", arguments[-1]], check=True, capture_output=True)

    def remount(self, options: str, folder: Path) -> None:
        """Changes the options of a mounted file system."""
        subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True)

    def _undisturbed(self, cold: bool) -> Path:
        """Runs the job to its end; every run, cold or warm, must give the same results."""
        out = self.folder()
        process, watch = self.start(out, cold), _Changes(out)
        watch.until(process, lambda cpu_s, changes: False)
        assert process.wait() == 0, f"the undisturbed {self.job.name} fails, see {process.log}"
        made = self.job.made(out)
        self.wanted = self.wanted or made
        assert made == self.wanted, f"{out}: {differences(self.wanted, made)} without any fault"
        self._cpu_s[cold], self._changes = watch.cpu_s, watch.count
        return out


def _logs_of(out: Path) -> Path:
    return out.with_name(out.name + ".logs")


class _Changes:
    """Counts the names that appear in a folder or disappear from it."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._names = set(_names(folder))
        self.count = 0
        self.cpu_s = 0.0

    def until(self, process: Process, reached: Callable[[float, int], bool]) -> None:
        """Watches until `reached(seconds of processor time, changes)` is true or the process ends."""

        def look() -> bool:
            names = set(_names(self._folder))
            self.count += len(names ^ self._names)
            self._names = names
            self.cpu_s = max(self.cpu_s, _cpu_seconds(process.pid))
            return process.ended or reached(self.cpu_s, self.count)

        process.waited(look)


def _names(folder: Path) -> Iterator[str]:
    for path, folders, files in os.walk(folder):
        yield from (os.path.join(path, name) for name in (*folders, *files))


def _cpu_seconds(pid: int) -> float:
    """Returns the processor time of a process and its threads; unlike wall time it does not depend on other load."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:13])) / _TICKS


def last_line(log: Path) -> str:
    """Returns the last line of a log."""
    lines = log.read_text(errors="replace").splitlines()
    return lines[-1] if lines else "nothing printed"


def complaint(process: Process, status: int, wanted_status: int, text: str) -> str:
    """Returns an error text if a process ended with another status, a traceback or without the line `text`; else ""."""
    printed = process.log.read_text(errors="replace")
    if status != wanted_status:
        return f"{process.log}: status {status} in place of {wanted_status}: {last_line(process.log)}"
    if "Traceback" in printed:
        return f"{process.log}: a traceback"
    if text and not re.search(text, last_line(process.log)):
        return f"{process.log}: it ends with {last_line(process.log)!r}, nothing like {text!r}"
    return ""
