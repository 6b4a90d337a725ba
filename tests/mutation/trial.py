"""Runs of tests on a copy of the checkout, with and without a break in it."""

import contextlib
import dataclasses
import multiprocessing
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import pytest

from tests.mutation.mutation import ROOT, Mutation, NotApplicableError
from tests.mutation.report import Result, Verdict

COPIED = ("t2t", "tests", "examples", "bin", "benchmarks", "docs", "README.md", "pyproject.toml", "setup.py")
FORKS = multiprocessing.get_context("forkserver")
_FEW = 5
"""Up to so many mutations, TensorFlow is imported only by the trials that need it."""
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


def run_pytest(root: Path, tests: Collection[str], timeout: float, *options: str) -> PytestRun:
    """Runs tests of a copy, in a fork of a process that has imported nothing of ours.

    Args:
        root: of the copy.
        tests: as pytest is given them.
        timeout: seconds.
        *options: of pytest.
    """
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as output:
        process = FORKS.Process(target=_test, args=(root, output.name, *tests, *options))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            os.killpg(process.pid, signal.SIGKILL)  # with the processes that tests have started
            process.join()
            return PytestRun(None)
        return read_run(process.exitcode, output.read())


def _test(root: Path, output: str, *arguments: str) -> None:
    """Runs pytest on a copy in this process, of which nothing else is wanted."""
    os.setsid()
    with open(output, "w") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    os.chdir(root)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("t2t", "tests")]:
        del sys.modules[name]
    sys.path[:] = [str(root), *(path for path in sys.path if path and Path(path) != ROOT)]
    # No bytecode: Python would take it for that of the broken file where both were written within the same second.
    sys.dont_write_bytecode = True
    os.environ.update({"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "1000"})
    sys.exit(pytest.main([*arguments, "-rfE", "--tb=no", "-p", "no:cacheprovider"], plugins=[_NoShrinking()]))


class _NoShrinking:
    """A plug-in with which Hypothesis stops at the first example that fails; nobody reads a smaller one."""

    def pytest_configure(self) -> None:
        import hypothesis  # not before pytest, which rewrites its assertions

        phases = [phase for phase in hypothesis.Phase if phase.name not in ("shrink", "explain")]
        hypothesis.settings.register_profile("no shrinking", hypothesis.settings.default, phases=phases)
        hypothesis.settings.load_profile("no shrinking")


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
    FORKS.set_forkserver_preload(["tests.mutation.preload"] if len(mutations) > _FEW else [])
    all_pass = run_pytest(root, _all_tests(root, mutations), timeout * max(1, len(mutations))).status == 0
    for mutation in mutations:
        began = time.monotonic()
        verdict, reason = _try(root, mutation, timeout, all_pass)
        yield Result(mutation, verdict, reason, time.monotonic() - began)


def _all_tests(root: Path, mutations: Sequence[Mutation]) -> dict[str, None]:
    """Returns the tests of mutations, each once, without those of files that are gone."""
    found: dict[str, None] = {}
    for mutation in mutations:
        with contextlib.suppress(NotApplicableError):
            found |= dict.fromkeys(mutation.tests_in(root))
    return found


def _try(root: Path, mutation: Mutation, timeout: float, passes: bool) -> tuple[Verdict, str]:
    """Tries one mutation, whose tests are run without the break first where it is not known that they pass."""
    try:
        mutated, tests = mutation.broken_source(root), mutation.tests_in(root)
    except NotApplicableError as error:
        return Verdict.NOT_APPLICABLE, str(error)
    if not passes:
        verdict, reason = run_pytest(root, tests, timeout).verdict()
        if verdict != Verdict.SURVIVED:
            return Verdict.NOT_APPLICABLE, f"without the break: {reason}"
    with _replaced(root / mutation.file, mutated):
        return run_pytest(root, tests, timeout, "--exitfirst").verdict()


@contextlib.contextmanager
def _replaced(path: Path, source: str) -> Iterator[None]:
    """Gives a file another source for the length of a `with` block."""
    original = path.read_text(encoding="utf-8")
    path.write_text(source, encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(original, encoding="utf-8")
