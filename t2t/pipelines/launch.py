"""Starts a pipeline, shows its progress, and ends it together with the command."""

import contextlib
import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO

from t2t.errors import MachineError
from t2t.files.progress import Progress, write_line
from t2t.pipelines.pipeline import PipelineTask, parse_beam_options, runs_here
from t2t.runs.startup import environment_of_child

_SECONDS_BETWEEN_LOOKS = 0.5
_SHARE = 20
"""At most one second in so many goes to checking which shards are done: slow on a shared file system."""

log = logging.getLogger("t2t")


Runner = Callable[[PipelineTask, str, str], None]
"""Runs a task, with options of Apache Beam and a label; raises as `run_task`."""


def run_task(task: PipelineTask, options: str, what: str) -> None:
    """Runs a task with Apache Beam, and logs the counters of the workers.

    Args:
        task: what to do.
        options: of Apache Beam, checked.
        what: label of the progress bar.

    Raises:
        UserError: the first error of an element.
        MachineError: the first error of an element; or the pipeline failed otherwise, and its output is shown.
    """
    task.failures.clear()
    with contextlib.ExitStack() as stack:
        # On this machine, each worker prints startup lines, which are hidden. Output of a cluster is shown.
        is_local = runs_here(parse_beam_options(options))
        printed = stack.enter_context(tempfile.TemporaryFile()) if is_local else None
        answer, status = _run(task, options, what, printed)
        error = task.failures.first()
        if printed and status and error is None:
            printed.seek(0)
            write_line(printed.read().decode(errors="replace").rstrip(), sys.stderr)
    task.failures.clear()
    if error is not None:
        raise error
    if status:
        raise MachineError(_describe_end(status))
    if counters := json.loads(answer):
        log.info("counters of Apache Beam: %s", ", ".join(f"{counters[name]:,} {name}" for name in sorted(counters)))


def _run(task: PipelineTask, options: str, what: str, printed: BinaryIO | None) -> tuple[bytes, int]:
    """Returns the counters as JSON, and the exit status of the process of the pipeline."""
    with _driver(printed) as process:
        assert process.stdin, "it is a pipe"
        assert process.stdout, "it is a pipe"
        with contextlib.suppress(BrokenPipeError):  # it has ended
            pickle.dump((task, options), process.stdin)
            process.stdin.flush()
        _show_until_ended(process, task, what)
        answer = process.stdout.read()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    return answer, process.returncode


@contextlib.contextmanager
def _driver(printed: BinaryIO | None) -> Iterator[subprocess.Popen]:
    """Starts the process of a pipeline; kills it and its workers at the end of a `with` block.

    Args:
        printed: file for its error output; None for stderr.
    """
    with subprocess.Popen(
        [sys.executable, "-m", "t2t.pipelines.driver"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=printed, env=environment_of_child(),
        process_group=0,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # it is not reaped yet, so no other process has its id


def _show_until_ended(process: subprocess.Popen, task: PipelineTask, what: str) -> None:
    """Shows how many elements are done until the process ends, without reaping it."""
    pending = {element for element in range(task.count) if not task.is_done(element)}
    with contextlib.closing(Progress(what, "shards", task.count, task.count - len(pending))) as progress:
        next_look = 0.0
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            if (now := time.monotonic()) >= next_look:
                pending = {element for element in pending if not task.is_done(element)}
                progress.move_to(task.count - len(pending))
                next_look = now + _SHARE * (time.monotonic() - now)


def _describe_end(status: int) -> str:
    if status == -signal.SIGKILL:
        return (
            "a process of the pipeline died, most likely for want of memory; free some memory, or let it run with "
            "fewer workers; the same command makes the missing shards"
        )
    return (
        f"the pipeline of Apache Beam failed with status {status}, see above; the same command makes the shards "
        f"that are missing"
    )
