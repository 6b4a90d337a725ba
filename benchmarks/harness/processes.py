"""Runs one side of a comparison: a new process with its own interpreter and a limited number of threads and cores."""

import dataclasses
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
"""Root folder of the checkout."""

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")


class SideError(Exception):
    """A measured process failed; the message has the last line of its output."""


@dataclasses.dataclass(frozen=True)
class Side:
    """A program to measure."""

    name: str
    python: Path
    """Python interpreter that runs its module."""
    module: str
    """Module that drives it, e.g. `benchmarks.ours.training`; run as `python -m MODULE JOB`."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Fields added to each of its jobs."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Conditions:
    """Conditions of every measured process."""

    threads: int
    """Number of its threads, and of the cores that it may use."""
    timeout: float
    """Time limit in seconds."""
    again: int = 0
    """Maximum number of repetitions of a turn that other processes disturbed."""
    prefix: tuple[str, ...] = ()
    """Command that starts the process, e.g. `("nice", "-n", "-5")`."""


def run(side: Side, job: Mapping[str, Any], folder: Path, conditions: Conditions) -> dict[str, Any]:
    """Runs a side in a new process and waits for it; returns its figures.

    Args:
        side: the program to run.
        job: plain JSON, the input of its module.
        folder: output folder for the job, log and result.
        conditions: threads, time limit and prefix of the process.

    Raises:
        SideError: it failed or exceeded the time limit.
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
    """Limits the process, which has just been forked, to as many cores as it has threads."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[:threads])
