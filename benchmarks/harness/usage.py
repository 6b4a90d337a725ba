"""Measures a command: seconds, and peak memory of its process and of those that it starts."""

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
"""Seconds before the first sample of the processes, and the maximum between samples. The interval doubles each time:
short commands are sampled too, and long ones are not slowed down."""

_HELD = {"Pss_Anon": "own_mb", "Pss_File": "mapped_mb"}
"""Line of /proc/PID/smaps_rollup -> field of Usage. A page shared by n processes counts 1/n in the `Pss` of each."""


class Usage(NamedTuple):
    """Time and peak memory of a command; memory in MB of 10^6 bytes."""

    seconds: float
    resident_mb: float
    """Of its largest process; not from `getrusage`, whose maximum includes the memory of the process that forked it."""
    own_mb: float
    """Anonymous memory of all its processes together, which the system cannot reclaim."""
    mapped_mb: float
    """Resident pages of files that all its processes have mapped, which the system can reclaim."""


def measured(command: Sequence[str], log: Path) -> Usage:
    """Runs a command from the checkout, waits for it and returns its usage.

    Args:
        command: program and arguments.
        log: file for its output.

    Raises:
        SideError: it failed; the message has the last line of its output.
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
    """Samples the processes of a session until `over` is set; updates `peaks`, whose keys are fields of Usage."""
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
    """Returns the values in kB of a file of /proc, converted to MB of 10^6 bytes; empty if the process has ended."""
    try:
        lines = [line.split() for line in file.read_text().splitlines()]
    except OSError:
        return {}
    return {words[0].rstrip(":"): int(words[1]) * 1024 / 1e6 for words in lines if words[-1:] == ["kB"]}
