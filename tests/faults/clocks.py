"""A system clock that jumps, within a process and between two, and files with arbitrary timestamps."""

import os

from tests.faults.bench import Bench, complaint

YEAR_S = 365 * 86400.0
JUMPS_S = (-20 * YEAR_S, -3600.0, 3600.0, 20 * YEAR_S)


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
