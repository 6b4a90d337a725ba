"""Bad text thrown at everything that reads some: no traceback, no hang, no line that is lost or has moved.

`rows` draws as many cases of each check as asked; the tests draw a few.
"""

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings

from tests.faults.report import Row
from tests.faults.text_checks import CHECKS

LONGEST_S = 60
"""Seconds of processor time after which a case of a few short lines hangs."""

CASES = 1_000
"""Of each check: ten thousand in all."""


def rows(times: int = CASES) -> Iterator[Row]:
    """Yields a row for each check."""
    for name in CHECKS:
        row = Row(f"bad text, {name}", wanted=times)
        for case in _cases(name, times):
            row.add(_wrong(name, case))
        yield row


def _cases(name: str, times: int) -> list[Any]:
    found: list[Any] = []
    drawn(name, lambda case: found.append(case), times, phases=[Phase.generate])
    return found


def _wrong(name: str, case: Any) -> str:
    try:
        run_case(name, case)
    except Exception as error:
        return f"{error!r} of {case!r}"[:2000]
    return ""


def drawn(name: str, function: Callable[[Any], None], times: int, **changes: Any) -> None:
    """Calls a function with so many cases of a check; with no check for how long it takes to draw them."""
    quiet = settings(
        max_examples=times, deadline=None, database=None, suppress_health_check=list(HealthCheck), **changes
    )
    quiet(given(CHECKS[name].cases)(function))()


def run_case(name: str, case: Any) -> None:
    """Runs one case in an empty folder.

    Raises:
        TimeoutError: it hangs.
        Exception: whatever the check finds wrong.
    """
    with tempfile.TemporaryDirectory(prefix="t2t-text-") as folder, chdir(folder), _processor_time(LONGEST_S):
        CHECKS[name].run(case)


@contextmanager
def _processor_time(seconds: float) -> Iterator[None]:
    def too_long(*_: Any) -> None:
        raise TimeoutError(f"more than {seconds} s of processor time, in process {os.getpid()}")

    before = signal.signal(signal.SIGPROF, too_long)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
