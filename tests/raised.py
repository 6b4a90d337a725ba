"""Errors that no test makes: after a complete default run, each line of the package that makes one must have run.

`tests/conftest.py` has `errors_made` filled and takes the hooks of this file. The processes of pytest-xdist send what
they have made to the one that started them.
"""

import ast
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.errors import OURS, PACKAGE

errors_made: set[str] = set()
"""The lines that have made errors in this process and in those of pytest-xdist that have ended, as `path:line`."""

_ELSEWHERE = """
    t2t/data/generation/worker_pool.py: _dead_workers_as_machine_errors
    t2t/backends/__init__.py: backend check_tensorflow
    t2t/backends/jax/backend.py: JaxBackend.compile_errors
    t2t/backends/jax/devices.py: build_devices connect _of_all_workers
    t2t/backends/tensorflow/devices.py: _across_workers
    t2t/backends/workers.py: Workers.check_same Workers.guard
"""
NOT_BY_DEFAULT = {
    f"{path}::{name}"
    for path, names in (line.strip().split(": ") for line in _ELSEWHERE.strip().splitlines())
    for name in names.split()
}
"""Functions whose errors are made in other processes, on JAX or on other machines, as `t2t/file.py::function`."""


class Origin(NamedTuple):
    """Code that makes an error."""

    function: str
    """As in `NOT_BY_DEFAULT`."""
    path: Path
    lines: range

    def is_in(self, made: set[str]) -> bool:
        """Returns whether one of the lines has made an error."""
        return any(f"{self.path}:{line}" in made for line in self.lines)

    def __str__(self) -> str:
        return f"{self.function} (line {self.lines.start})"


@functools.cache
def all_origins(package: Path = PACKAGE) -> list[Origin]:
    """Returns all code of a package that makes errors of ours."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(package.rglob("*.py"))}
    classes = _error_classes(trees.values())
    return [
        Origin(f"{path.relative_to(package.parent).as_posix()}::{function}", path, lines)
        for path, tree in trees.items()
        for function, lines in _calls(tree, classes, "")
    ]


def _error_classes(trees: Iterable[ast.Module]) -> set[str]:
    """Returns the names of our classes of errors, with those that modules define for themselves."""
    found, size = set(OURS), 0
    defined = [node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    while len(found) > size:
        size = len(found)
        found |= {node.name for node in defined if found & {_name(base) for base in node.bases}}
    return found


def _calls(node: ast.AST, classes: set[str], inside: str) -> Iterator[tuple[str, range]]:
    """Yields the function, "" for none, and the lines of each call that makes an error."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and _name(child.func) in classes:
            yield inside, range(child.lineno, (child.end_lineno or child.lineno) + 1)
        is_named = isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        yield from _calls(child, classes, f"{inside}.{child.name}".lstrip(".") if is_named else inside)


def _name(node: ast.AST) -> str:
    return getattr(node, "id", getattr(node, "attr", ""))


def never_made(made: set[str]) -> list[Origin]:
    """Returns the code whose errors should have been made, and were not."""
    return [one for one in all_origins() if one.function not in NOT_BY_DEFAULT and not one.is_in(made)]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """Takes what a process of pytest-xdist has made."""
    errors_made.update(getattr(node, "workeroutput", {}).get("errors_made", ()))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Sends what this process of pytest-xdist has made; or fails a complete run that has not made every error."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["errors_made"] = sorted(errors_made)
    elif is_complete(session) and (missing := never_made(errors_made)):
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        reporter.write("\n\n")
        reporter.write_sep("=", "errors that no test makes, see tests/raised.py", red=True)
        reporter.write("".join(f"{one}\n" for one in missing))
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def is_complete(session: pytest.Session) -> bool:
    """Returns whether all default tests have run and passed."""
    config = session.config
    picks = ("keyword", "deselect", "ignore", "ignore_glob", "lf", "collectonly", "stepwise")
    return (
        config.args_source == config.ArgsSource.TESTPATHS
        and config.option.markexpr in config.getini("addopts")
        and not any(config.getoption(name, None) for name in picks)
        and not session.testsfailed
        and session.exitstatus == pytest.ExitCode.OK
    )
