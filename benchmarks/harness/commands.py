"""Timing a command."""

import os
import subprocess
import time
from collections.abc import Sequence

from benchmarks.harness.processes import ROOT, SideError


def seconds_of(command: Sequence[str]) -> float:
    """Runs a command from the checkout and discards its output; returns the seconds from start to exit.

    Raises:
        SideError: it failed; the message has its last line of standard error.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    began = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise SideError(f"{' '.join(command)} ended with status {done.returncode}: {said[-1]}")
    return seconds
