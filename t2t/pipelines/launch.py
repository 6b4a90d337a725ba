"""Starts a pipeline, shows how far it has come, and ends it with the command."""

import contextlib
import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import t2t
from t2t.errors import MachineError
from t2t.files.progress import Progress
from t2t.pipelines.task import Task

_SECONDS_BETWEEN_LOOKS = 0.5

log = logging.getLogger("t2t")


def run_task(task: Task, options: str, what: str) -> dict[str, int]:
    """Does a task by Apache Beam; logs and returns the counters of the workers, by name.

    Args:
        task: what to do.
        options: of Apache Beam, checked.
        what: what the elements are of, for the progress.

    Raises:
        UserError: that of the first element that has one.
        MachineError: the same; or the pipeline failed otherwise, which it has printed.
    """
    task.failures.clear()
    with _driver() as process:
        assert process.stdin is not None and process.stdout is not None, "both are pipes"
        with contextlib.suppress(BrokenPipeError):  # it has ended, and has printed why
            pickle.dump((task, options), process.stdin)
            process.stdin.flush()
        _show_until_ended(process, task, what)
        answer = process.stdout.read()
    if (error := task.failures.first()) is not None:
        raise error
    if process.returncode:
        raise MachineError(_describe_end(process.returncode))
    counters: dict[str, int] = json.loads(answer)
    log.info("counters of Apache Beam: %s", ", ".join(f"{counters[name]:,} {name}" for name in sorted(counters)))
    return counters


@contextlib.contextmanager
def _driver() -> Iterator[subprocess.Popen]:
    """Starts the process of a pipeline; kills it and its workers at the end of a `with` block."""
    folder = str(Path(t2t.__file__).parents[1])  # of a checkout, which the workers need not have installed
    path = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [sys.executable, "-m", "t2t.pipelines.driver"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}, start_new_session=True,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # not waited for yet, so that the number is still its own


def _show_until_ended(process: subprocess.Popen, task: Task, what: str) -> None:
    """Shows how many elements are done until the process ends, without reaping it."""
    pending = {element for element in range(task.count) if not task.is_done(element)}
    done = task.count - len(pending)
    with contextlib.closing(Progress(what, "shards", task.count, done)) as progress:
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            pending = {element for element in pending if not task.is_done(element)}
            progress.move_to(task.count - len(pending))


def _describe_end(status: int) -> str:
    if status == -signal.SIGKILL:
        return (
            "a process of the pipeline died, most likely for want of memory; free some memory, or let it run with fewer "
            "workers; the same command goes on with the shards that are missing"
        )
    return (
        f"the pipeline of Apache Beam failed with status {status}, see above; the same command goes on with the shards "
        f"that are missing"
    )
