"""Processes that are ended at a random moment, and two that want the same folder."""

import shutil
import signal

from tests.faults.bench import Bench, complaint, last_line
from tests.faults.jobs import differences, finished_files, remade_shards

COLD = 0.2
"""Share of the processes that start cold: those are hit while Python and TensorFlow start, too."""

SIGNALS = {"SIGKILL": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "SIGINT": signal.SIGINT}
STEP_S = 300.0
"""By then, a process that was asked to stop has done so: an update takes far less, even on a busy machine."""

_SAID = {"SIGTERM": r"stopped by SIGTERM", "SIGINT": r"stopped by SIGINT|interrupted"}


def killed(bench: Bench, name: str) -> str | None:
    """Sends a signal at a random moment and runs the same command again.

    Returns:
        what went wrong, nothing where all is well, None where the process was over before its moment came.
    """
    out, process = bench.start_and_wait(cold=bench.rng.random() < COLD)
    if process.ended:
        return None
    process.send(SIGNALS[name])
    try:
        status = process.wait(STEP_S)
    except TimeoutError as error:
        return str(error)
    printed = process.log.read_text(errors="replace")
    if name == "SIGINT" and "Traceback" in printed and "_guarded" not in printed:
        return None  # Python was still reading the command's code, and ended as it does
    if (name != "SIGKILL" or status == 0) and not differences(bench.wanted, bench.job.made(out)):
        return None  # it had nothing left to do but leave, or has done it before the signal came
    said = _SAID.get(name, "") if printed else ""  # one that has printed nothing may not have begun to hear
    finished = finished_files(out)
    wrong = complaint(process, status, 128 + SIGNALS[name], said) or bench.go_on(out, keep=True)
    wrong = wrong or remade_shards(finished, out)
    if not wrong:
        shutil.rmtree(out, ignore_errors=True)
    return wrong


def second(bench: Bench) -> str | None:
    """Starts the job twice on one folder: the second process is to say so and leave, the first to end as if alone."""
    out = bench.folder()
    first, held = bench.start(out), bench.job.lock(out)
    first.waited(lambda: first.ended or (held.exists() and (held.stat().st_size > 0 or held.suffix == ".partial")))
    first.send(signal.SIGSTOP)
    try:
        if first.ended:
            return None
        other = bench.start(out)
        wrong = complaint(other, other.wait(), 2, "process .*; wait for it")
    finally:
        first.send(signal.SIGCONT)
    if status := first.wait():
        return f"{out}: the first process ends with status {status}: {last_line(first.log)}"
    return wrong or differences(bench.wanted, bench.job.made(out))
