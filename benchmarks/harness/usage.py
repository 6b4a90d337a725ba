"""What a command takes: seconds, and the memory of its process and of those that it starts."""

import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness.processes import ROOT, SideError

_FIRST, _EVERY = 0.005, 0.25
"""Seconds until the first look at the processes, and at most between two: the pause doubles from look to look, so that
a command that is over in a moment is seen as well, and a long one is not slowed down."""

_HELD = {"Pss_Anon": "own_mb", "Pss_File": "mapped_mb"}
"""Lines of /proc/PID/smaps_rollup; of a page that n processes share, each has 1/n in its `Pss`."""


class Usage(NamedTuple):
    """What a command took; memory in MB of 10^6 bytes, all of its processes together, at its peak."""

    seconds: float
    resident_mb: float
    """Of its largest process; not from `getrusage`, which begins with the memory of the process that forked it."""
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
    peaks, over = Counter(), threading.Event()
    watcher = threading.Thread(target=_watch, args=(process.pid, peaks, over))
    watcher.start()
    process.wait()
    over.set()
    watcher.join()
    seconds = time.perf_counter() - began
    if process.returncode:
        last = (log.read_text(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
        raise SideError(f"{' '.join(command[:3])} ... ended with status {process.returncode}: {last}; see {log}")
    return Usage(seconds, *(peaks[name] for name in Usage._fields[1:]))


def _watch(session: int, peaks: Counter[str], over: threading.Event) -> None:
    """Keeps the most that the processes of a session hold together, and the largest of them, until it is over."""
    pause = _FIRST
    while not over.wait(pause):
        pause = min(2 * pause, _EVERY)
        held: Counter[str] = Counter()
        for process in _processes(session):
            peaks |= Counter({"resident_mb": _sizes(process / "status").get("VmHWM", 0.0)})
            sizes = _sizes(process / "smaps_rollup")
            held.update({name: sizes.get(line, 0.0) for line, name in _HELD.items()})
        peaks |= held


def _processes(session: int) -> Iterator[Path]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[3]) == session:
            yield folder


def _sizes(file: Path) -> dict[str, float]:
    """Returns the lines of a file of /proc that are in kB, in MB; nothing where the process has ended."""
    try:
        lines = [line.split() for line in file.read_text().splitlines()]
    except OSError:
        return {}
    return {words[0].rstrip(":"): int(words[1]) * 1024 / 1e6 for words in lines if words[-1:] == ["kB"]}
