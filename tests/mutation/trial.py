"""Runs of tests on a copy of the checkout, with and without a break in it."""

import contextlib
import dataclasses
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from tests.mutation.mutation import ROOT, Mutation, NotApplicableError
from tests.mutation.report import Result, Verdict

COPIED = ("t2t", "tests", "examples", "bin", "benchmarks", "docs", "README.md", "pyproject.toml", "setup.py")
_SUMMARY = re.compile(r"(FAILED|ERROR) (\S+\.py(?:::.+?)?)(?: - .*)?\Z")
"""A line of pytest's short summary."""


@dataclasses.dataclass(frozen=True)
class PytestRun:
    """What a run of pytest said."""

    status: int | None
    """Exit status, 0 where there were tests and all passed; None where it ran out of time."""
    failed: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    """Tests that could not run, and files that could not be imported."""

    def verdict(self) -> tuple[Verdict, str]:
        """Returns what a run with a break in the code means for the break, and why."""
        if self.status is None:
            return Verdict.HUNG, "ran out of time"
        if self.failed:
            return Verdict.CAUGHT, self.failed[0]
        if self.status == 0:
            return Verdict.SURVIVED, ""
        reason = f"{self.errors[0]} could not run" if self.errors else f"pytest ended with status {self.status}"
        return Verdict.NOT_APPLICABLE, reason


def copy_checkout(folder: Path) -> None:
    """Copies what the tests need into a folder."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        else:
            shutil.copy(ROOT / name, folder / name)


def run_pytest(root: Path, tests: Collection[str], timeout: float) -> PytestRun:
    """Runs tests of a copy.

    Args:
        root: of the copy.
        tests: as pytest is given them.
        timeout: seconds.
    """
    # No bytecode: Python would take it for that of the broken file where both were written within the same second.
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "1000"}
    command = [sys.executable, "-m", "pytest", *tests, "-rfE", "--tb=no", "-p", "no:cacheprovider"]
    with subprocess.Popen(
        command, cwd=root, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with the processes that tests have started
            return PytestRun(None)
    return read_run(process.returncode, output)


def read_run(status: int, output: str) -> PytestRun:
    """Returns what an exit status and a short summary of pytest say."""
    found = [match.groups() for line in output.splitlines() if (match := _SUMMARY.match(line))]
    failed, errors = (tuple(test for word, test in found if word == kind) for kind in ("FAILED", "ERROR"))
    return PytestRun(status, failed, errors)


def results(root: Path, mutations: Sequence[Mutation], timeout: float) -> Iterator[Result]:
    """Tries mutations one by one, once their tests have passed without a break.

    Args:
        root: of a copy of the checkout, which is left as it was.
        mutations: which.
        timeout: seconds that the tests of one mutation may take.
    """
    tests = dict.fromkeys(test for mutation in mutations for test in mutation.tests)
    all_pass = run_pytest(root, tests, timeout * max(1, len(mutations))).status == 0
    for mutation in mutations:
        began = time.monotonic()
        verdict, reason = _try(root, mutation, timeout, all_pass)
        yield Result(mutation, verdict, reason, time.monotonic() - began)


def _try(root: Path, mutation: Mutation, timeout: float, passes: bool) -> tuple[Verdict, str]:
    """Tries one mutation, whose tests are run without the break first where it is not known that they pass."""
    try:
        mutated = mutation.broken_source(root)
    except NotApplicableError as error:
        return Verdict.NOT_APPLICABLE, str(error)
    if not passes:
        verdict, reason = run_pytest(root, mutation.tests, timeout).verdict()
        if verdict != Verdict.SURVIVED:
            return Verdict.NOT_APPLICABLE, f"without the break: {reason}"
    with _replaced(root / mutation.file, mutated):
        return run_pytest(root, mutation.tests, timeout).verdict()


@contextlib.contextmanager
def _replaced(path: Path, source: str) -> Iterator[None]:
    """Gives a file another source for the length of a `with` block."""
    original = path.read_text(encoding="utf-8")
    path.write_text(source, encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(original, encoding="utf-8")
