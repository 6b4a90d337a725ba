"""Feeds bad text to everything that reads text: no traceback, no hang, no line lost or moved.

`rows` draws a given number of cases for each check; the tests draw only a few.
"""

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from typing import Any
from unittest import mock

from hypothesis import HealthCheck, Phase, given, settings

from t2t.errors import T2TError
from tests.errors import unchecked_init
from tests.faults.report import Row
from tests.faults.text_checks import CHECKS

LONGEST_S = 60
"""Seconds of processor time after which a case, a few short lines, is considered hung."""

CASES = 1_000
"""Number of cases of each check."""


def rows(times: int = CASES) -> Iterator[Row]:
    """Yields a row for each check."""
    for name in CHECKS:
        row, cases = Row(f"bad text, {name}", wanted=times), list[Any]()
        drawn(name, cases.append, times, phases=[Phase.generate])
        for case in cases:
            try:
                run_case(name, case)
            except Exception as error:
                row.add(f"{error!r} of {case!r}"[:2000])
            else:
                row.add("")
        yield row


def drawn(name: str, function: Callable[[Any], None], times: int, **changes: Any) -> None:
    """Calls a function with `times` random cases of a check, without Hypothesis's limits on time and health."""
    quiet = settings(
        max_examples=times, deadline=None, database=None, suppress_health_check=list(HealthCheck), **changes
    )
    quiet(given(CHECKS[name].cases)(function))()


def run_case(name: str, case: Any) -> None:
    """Runs one case in an empty folder.

    Messages about drawn names may have line breaks, so their form is checked where commands print them.

    Raises:
        TimeoutError: the case takes more than LONGEST_S seconds of processor time.
        Exception: the check fails.
    """
    unchecked = mock.patch.object(T2TError, "__init__", unchecked_init)
    with unchecked, tempfile.TemporaryDirectory() as folder, chdir(folder), _processor_time(LONGEST_S):
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
