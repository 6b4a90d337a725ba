"""Processes that are killed at a random moment, also while the clock jumps, and two that use the same folder."""

import os
import shutil
import signal

from tests.faults.bench import Bench, complaint, last_line
from tests.faults.jobs import differences, finished_files, remade_shards

COLD = 0.2
"""Fraction of processes that start cold, so that kills also hit the start of Python and TensorFlow."""

SIGNALS = {"SIGKILL": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "SIGINT": signal.SIGINT}
YEAR_S = 365 * 86400.0
JUMPS_S = (-20 * YEAR_S, -3600.0, 3600.0, 20 * YEAR_S)
STEP_S = 300.0
"""Time limit for a process to stop after a signal; an update takes far less, even on a busy machine."""

_SAID = {"SIGTERM": r"stopped by SIGTERM", "SIGINT": r"stopped by SIGINT|interrupted"}


def killed(bench: Bench, name: str) -> str | None:
    """Sends a signal at a random moment and runs the same command again.

    Returns:
        An error text, "" if the job was resumed correctly, None if the signal came too early or too late to matter.
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
        return None  # Python itself was still starting, and printed its usual traceback
    if (name != "SIGKILL" or status == 0) and not differences(bench.wanted, bench.job.made(out)):
        return None  # the job had already finished
    said = _SAID.get(name, "") if printed else ""  # without output, the signal handler may not have been installed yet
    finished = finished_files(out)
    wrong = complaint(process, status, 128 + SIGNALS[name], said) or bench.go_on(out, keep=True)
    wrong = wrong or remade_shards(finished, out)
    if not wrong:
        shutil.rmtree(out, ignore_errors=True)
    return wrong


def second(bench: Bench) -> str | None:
    """Starts the job twice on one folder: the second process must report it and exit, the first must end normally."""
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


def jumping(bench: Bench) -> str | None:
    """Kills a job whose clock jumps, gives its files arbitrary timestamps, and resumes it under another clock.

    One of the two processes goes to its end, and every command reads the clock more than once, for its log: the jump
    is certain to be seen.
    """
    first, second = ({"module": bench.job.module, "clock_off_s": bench.rng.choice(JUMPS_S)} for _ in range(2))
    out, process = bench.start_and_wait(**first)
    if process.ended and (wrong := complaint(process, process.wait(), 0, "")):
        return wrong
    process.end()
    for path in out.rglob("*"):
        age_s = bench.rng.uniform(0, 60 * YEAR_S)
        os.utime(path, (age_s, age_s))
    wrong = bench.go_on(out, **second)
    if not wrong and not bench.clocks_jumped(out):
        return None  # no process has read its clock after the jump
    return wrong
