"""The search for errors that no test makes."""

import types
from unittest import mock

import pytest

from tests import raised
from tests.raised import NOT_BY_DEFAULT, Origin, all_origins, is_complete, never_made

SOURCE = """from t2t import errors

class TornError(errors.UserError):
    pass

def read(path):
    if not path:
        raise errors.MachineError(
            f"{path}: gone"
        )
    raise _torn(path) from None

def _torn(path):
    return TornError(path) or ValueError(path)

class Reader:
    def close(self):
        raise TornError("late")
"""


def test_all_code_that_makes_errors_is_found(tmp_path):
    (tmp_path / "package").mkdir()
    path = tmp_path / "package" / "reader.py"
    path.write_text(SOURCE)
    found = all_origins(tmp_path / "package")
    assert found == [
        Origin("package/reader.py::read", path, range(8, 11)),
        Origin("package/reader.py::_torn", path, range(14, 15)),
        Origin("package/reader.py::Reader.close", path, range(18, 19)),
    ]
    assert [one.is_in({f"{path}:9", f"{path}:17"}) for one in found] == [True, False, False]


def test_exceptions_are_of_functions_that_make_errors():
    assert {one.function for one in all_origins()} >= NOT_BY_DEFAULT


@pytest.fixture
def session(pytestconfig):
    """A complete run with a worker of pytest-xdist, as far as the hooks look at it."""
    option = types.SimpleNamespace(markexpr="not slow")
    config = types.SimpleNamespace(
        args_source=pytestconfig.ArgsSource.TESTPATHS, ArgsSource=pytestconfig.ArgsSource, option=option,
        getini={"addopts": ["-m", "not slow"]}.get, getoption=lambda name, default: getattr(option, name, default),
        pluginmanager=mock.Mock(),
    )  # fmt: skip
    return types.SimpleNamespace(config=config, testsfailed=0, exitstatus=0)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"keyword": "a"}, False),
        ({"lf": True}, False),
        ({"markexpr": "slow"}, False),
        ({"failed": 1}, False),
    ],
)
def test_a_run_is_complete_with_all_default_tests(session, changes, expected):
    session.testsfailed = changes.pop("failed", 0)
    vars(session.config.option).update(changes)
    assert is_complete(session) == expected


def test_a_complete_run_fails_for_errors_that_no_process_has_made(session):
    every = {f"{one.path}:{one.lines.start}" for one in all_origins()}
    (missing, *_) = never_made(set())
    lost = f"{missing.path}:{missing.lines.start}"
    workers = [
        types.SimpleNamespace(config=types.SimpleNamespace(workeroutput={}), exitstatus=0) for _ in ("gw0", "gw1")
    ]
    kept = set(raised.errors_made)
    try:
        for worker, made in zip(workers, (every - {lost}, {lost}), strict=True):
            _have_made(made)
            raised.pytest_sessionfinish(worker)
        _have_made(set())
        for worker, expected in zip(workers, (1, 0), strict=True):
            raised.pytest_testnodedown(types.SimpleNamespace(workeroutput=worker.config.workeroutput))
            session.exitstatus = 0
            raised.pytest_sessionfinish(session)
            assert session.exitstatus == expected
    finally:
        _have_made(kept)
    written = session.config.pluginmanager.get_plugin.return_value.write.call_args.args
    assert written == (f"{missing}\n",)


def _have_made(made):
    raised.errors_made.clear()
    raised.errors_made |= made
