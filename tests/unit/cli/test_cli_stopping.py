"""Early ends of a command: signals, system errors, and output that nobody reads."""

import contextlib
import errno
import io
import os
import signal

import pytest
from absl import flags

from t2t.cli.common import command
from t2t.cli.stopping import StoppedError, stoppable
from t2t.errors import UserError
from tests.waiting import join_all, start_thread


def run(body):
    return command(flags.FlagValues, "%s")(lambda values: body())(["t2t-try"])


def kill(number):
    os.kill(os.getpid(), number)
    raise AssertionError("went on")


@pytest.mark.parametrize(("number", "said"), [(signal.SIGTERM, "stopped by SIGTERM"), (signal.SIGINT, "interrupted")])
def test_a_signal_that_a_library_swallows_is_the_reason_of_the_error_that_follows(number, said, monkeypatch, capsys):
    before = signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

    def body():
        with contextlib.suppress(BaseException):
            kill(number)
        raise ValueError("None values not supported.")

    try:
        assert run(body) == 128 + number
        assert signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL)
    finally:
        signal.signal(number, before)
    assert capsys.readouterr().err == f"t2t-try: {said}\n"


def test_an_interrupt_while_a_command_prepares_to_log_is_answered_too(monkeypatch, capsys):
    def interrupted(stream):
        raise KeyboardInterrupt

    monkeypatch.setattr("t2t.cli.common._BarSafeHandler", interrupted)
    assert run(lambda: 0) == 130
    assert capsys.readouterr().err == "t2t-try: interrupted\n"


@pytest.mark.parametrize(
    ("number", "status", "said"),
    [
        (signal.SIGTERM, 143, "t2t-try: stopped by SIGTERM\n"),
        (signal.SIGHUP, 129, "t2t-try: stopped by SIGHUP\n"),
        (signal.SIGINT, 130, "t2t-try: interrupted\n"),
    ],
)
def test_a_signal_ends_a_command_with_a_line_and_the_status_that_a_shell_gives_it(number, status, said, capsys):
    is_interrupt = number == signal.SIGINT  # shells make background jobs ignore it
    outside = signal.signal(number, signal.default_int_handler if is_interrupt else signal.SIG_DFL)
    before, cleaned = signal.getsignal(number), []

    def body():
        try:
            kill(number)
        except Exception:
            pytest.fail("taken for an error")
        finally:
            cleaned.append(True)

    try:
        assert run(body) == status
        assert signal.getsignal(number) is before
    finally:
        signal.signal(number, outside)
    assert capsys.readouterr().err == said
    assert cleaned


def test_the_same_signal_again_ends_the_process_at_once():
    handlers = []

    def body():
        try:
            kill(signal.SIGTERM)
        finally:
            handlers.append(signal.getsignal(signal.SIGTERM))

    with pytest.raises(StoppedError), stoppable():
        body()
    assert handlers == [signal.SIG_DFL]


def test_signals_that_are_ignored_or_handled_stay_so():
    heard = []
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM)}
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        with stoppable():
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert heard == [signal.SIGTERM]


def test_a_command_runs_in_any_thread():
    statuses = []
    join_all(start_thread(lambda: statuses.append(run(lambda: 7))))
    assert statuses == [7]


def refuse(number):
    raise OSError(number, os.strerror(number), "/runs/a/run.json")


def test_what_the_system_refuses_is_one_line_wherever_it_comes_from(capsys):
    assert run(lambda: refuse(errno.EACCES)) == 1
    assert capsys.readouterr().err == (
        "t2t-try: error: Permission denied (/runs/a/run.json); get permission there or choose another folder\n"
    )


def test_a_file_that_is_not_there_is_a_bug_and_keeps_its_traceback():
    with pytest.raises(FileNotFoundError):
        run(lambda: refuse(errno.ENOENT))


class Full(io.StringIO):
    """A log on a full disk, or on a terminal that is gone."""

    def write(self, text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_error_that_nobody_can_read_has_its_status(monkeypatch):
    def body():
        raise UserError("asked wrongly")

    monkeypatch.setattr("sys.stderr", Full())
    assert run(body) == 2
