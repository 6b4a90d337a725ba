"""What a command takes: seconds, and the memory of its process and of those that it starts."""

import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness.processes import ROOT, SideError

_EVERY = 0.25
"""Seconds between two looks at the processes."""

_SIZES = {"Rss": "resident_mb", "Pss_Anon": "own_mb", "Pss_File": "mapped_mb"}
"""Lines of /proc/PID/smaps_rollup; of a page that n processes share, each has 1/n in its `Pss`."""


class Usage(NamedTuple):
    """What a command took; memory in MB of 10^6 bytes, all of its processes together, at its peak."""

    seconds: float
    resident_mb: float
    """Of its largest process."""
    own_mb: float
    """What the processes hold themselves: it is not given back under pressure."""
    mapped_mb: float
    """What is in memory of the files that they read through maps: the system takes it back where others need it."""


def measured(command: Sequence[str], log: Path) -> Usage:
    """Runs a command from the checkout to its end.

    Args:
        command: program and arguments.
        log: file for what it prints.

    Raises:
        SideError: it failed, with the last line that it said.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    began = time.perf_counter()
    with open(log, "w") as said:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            start_new_session=True,
        )  # fmt: skip
    peaks, over = dict.fromkeys(_SIZES.values(), 0.0), threading.Event()
    watcher = threading.Thread(target=_watch, args=(process.pid, peaks, over))
    watcher.start()
    _, status, used = os.wait4(process.pid, 0)
    over.set()
    watcher.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - began
    if process.returncode:
        last = (log.read_text(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
        raise SideError(f"{' '.join(command[:3])} ... ended with status {process.returncode}: {last}; see {log}")
    return Usage(seconds, used.ru_maxrss * 1024 / 1e6, peaks["own_mb"], peaks["mapped_mb"])


def _watch(session: int, peaks: dict[str, float], over: threading.Event) -> None:
    """Keeps the most that the processes of a session hold together, until it is over."""
    while not over.wait(_EVERY):
        held = dict.fromkeys(peaks, 0.0)
        for process in _processes(session):
            for name, size in _sizes(process):
                held[name] += size
        for name, size in held.items():
            peaks[name] = max(peaks[name], size)


def _processes(session: int) -> Iterator[Path]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[3]) == session:
            yield folder


def _sizes(process: Path) -> Iterator[tuple[str, float]]:
    try:
        lines = (process / "smaps_rollup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        name, _, rest = line.partition(":")
        if name in _SIZES:
            yield _SIZES[name], int(rest.split()[0]) * 1024 / 1e6
