"""Running one side of a comparison: a fresh process with its own interpreter, threads and cores."""

import dataclasses
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")


class SideError(Exception):
    """A measured process failed, with the last line that it said."""


@dataclasses.dataclass(frozen=True)
class Side:
    """A program to measure."""

    name: str
    python: Path
    """Its interpreter."""
    module: str
    """Module of this folder that drives it, run as `python -m MODULE JOB`."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What is added to each of its jobs."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Conditions:
    """What every measured process runs under."""

    threads: int
    """Threads that it computes with, and cores that it may use."""
    timeout: float
    """Most seconds that it may take."""
    again: int = 0
    """How often a turn that others disturbed is taken anew, at most."""
    prefix: tuple[str, ...] = ()
    """Command that runs the process, e.g. `("nice", "-n", "-5")`."""


def run(side: Side, job: Mapping[str, Any], folder: Path, conditions: Conditions) -> dict[str, Any]:
    """Runs a process to its end; returns its figures.

    Args:
        side: what to run.
        job: plain JSON for its module.
        folder: where its job, its log and its result are written.
        conditions: the same for all sides.

    Raises:
        SideError: it failed or took longer.
    """
    folder.mkdir(parents=True, exist_ok=True)
    job_file, result, log = (folder / f"{side.name}.{kind}" for kind in ("job.json", "result.json", "log"))
    result.unlink(missing_ok=True)
    full = {**job, **side.options, "threads": conditions.threads, "result": str(result)}
    job_file.write_text(json.dumps(full))
    with open(log, "w") as said:
        try:
            done = subprocess.run(
                [*conditions.prefix, str(side.python), "-m", side.module, str(job_file)],
                cwd=ROOT,
                env=_environment(conditions.threads),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                timeout=conditions.timeout,
                check=False,
                preexec_fn=lambda: _take_cores(conditions.threads),
            )
        except subprocess.TimeoutExpired as error:
            raise SideError(f"{side.name} took more than {conditions.timeout:.0f} s; see {log}") from error
    if done.returncode or not result.is_file():
        lines = log.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
        raise SideError(f"{side.name} ended with status {done.returncode}: {lines[-1].strip()[:200]}; see {log}")
    return json.loads(result.read_text())


def _environment(threads: int) -> dict[str, str]:
    return {
        **os.environ,
        **dict.fromkeys(_THREADS, str(threads)),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONUNBUFFERED": "1",
    }


def _take_cores(threads: int) -> None:
    """Keeps the process, which has just been forked, to as many cores as it has threads."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[:threads])
