"""Early ends of a command: signals, system errors, output that nobody reads; log lines beside progress bars."""

import contextlib
import errno
import io
import json
import logging
import os
import signal
import subprocess
import sys

import pytest
from absl import flags
from tqdm import tqdm

from t2t.cli.common import command, logging_to_stderr
from t2t.errors import UserError
from t2t.files.output import StreamOutput
from tests.readme import ROOT
from tests.waiting import LIMIT_S, join_all, start_thread

SIGNALLED = """
import contextlib, io, json, signal
from absl import flags
from t2t.cli.common import command
from t2t.cli.stopping import stoppable

USUAL = {signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
# A shell that starts this in the background ignores some.
for number, handler in USUAL.items():
    signal.signal(number, handler)


def run(body):
    with contextlib.redirect_stderr(io.StringIO()) as err:
        status = command(flags.FlagValues, "%s")(lambda values: body())(["t2t-try"])
    return status, err.getvalue(), all(signal.getsignal(number) == handler for number, handler in USUAL.items())


def stopped(number):
    did = []

    def body():
        try:
            signal.raise_signal(number)
            did.append("went on")
        except Exception:
            did.append("taken for an error")
        finally:
            did.append("cleaned up")

    return *run(body), did


def swallowed(number):
    def body():
        with contextlib.suppress(BaseException):
            signal.raise_signal(number)
        raise ValueError("None values not supported.")

    return *run(body), []


found = [[number, how.__name__, *how(number)] for number in USUAL for how in (stopped, swallowed)]
heard = []
signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
with stoppable():
    signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGTERM)
print(json.dumps({"found": found, "heard": heard}))
"""
ENDS = {
    signal.SIGTERM: (143, "t2t-try: stopped by SIGTERM\n"),
    signal.SIGHUP: (129, "t2t-try: stopped by SIGHUP\n"),
    signal.SIGINT: (130, "t2t-try: interrupted\n"),
}
"""Exit status, as a shell gives it, and the line."""

TWICE = """
import signal, sys
from t2t.cli.stopping import StoppedError, stoppable

signal.signal(signal.SIGTERM, signal.SIG_DFL)
with stoppable():
    try:
        print("begun", flush=True)
        sys.stdin.read()
    except StoppedError:
        print("stopped once", flush=True)
        sys.stdin.read()
"""


AROUND = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["/usr/bin/t2t-try"]
import t2t
from absl import flags
from t2t.cli.common import command

main = command(flags.FlagValues, "%s")(lambda values: signal.raise_signal(signal.SIGINT) if when == "within" else 0)
for when in ("before", "within", "after", "at the end"):
    sys.stderr.flush()
    if not os.fork():
        break
    print(when, os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
else:
    sys.argv = ["own.py"]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    t2t.cli.stopping.answer_interrupts()
    print("elsewhere", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    sys.exit()
if when == "before":
    signal.raise_signal(signal.SIGINT)
status = main()
if when == "after":
    signal.raise_signal(signal.SIGINT)
if when == "at the end":

    class Late:
        def __del__(self, kill=os.kill, pid=os.getpid(), number=int(signal.SIGINT)):
            kill(pid, number)

    signal.late = Late()
sys.exit(status)
"""
"""Interrupts a command before and after its own handlers are installed, and while Python ends."""


def run(body):
    return command(flags.FlagValues, "%s")(lambda values: body())(["t2t-try"])


def test_a_package_of_tensorflow_that_is_missing_is_one_line(capsys):
    def use():
        raise ModuleNotFoundError("No module named 'tensorflow_text.core'", name="tensorflow_text.core")

    assert run(use) == 1
    line = capsys.readouterr().err
    assert line.startswith("t2t-try: error: ")
    assert "tensorflow-text" in line
    assert line.count("\n") == 1


def test_a_signal_ends_a_command_with_a_line_and_a_status_also_if_a_library_swallows_it():
    done = subprocess.run(
        [sys.executable, "-c", SIGNALLED], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["found"] == [
        [number, how, *end, True, did]
        for number, end in ENDS.items()
        for how, did in (("stopped", ["cleaned up"]), ("swallowed", []))
    ]
    assert found["heard"] == [signal.SIGTERM], "signals that are ignored or handled stay so"


def test_an_interrupt_before_and_after_a_command_has_its_line_and_status_too():
    done = subprocess.run(
        [sys.executable, "-c", AROUND], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.stdout == "before 130\nwithin 130\nafter 130\nat the end 0\nelsewhere True\n", done.stderr
    assert done.stderr == "t2t-try: interrupted\n" * 3


def test_the_same_signal_again_ends_the_process_at_once():
    with subprocess.Popen(
        [sys.executable, "-c", TWICE], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:  # fmt: skip
        for line in ("begun\n", "stopped once\n"):
            assert child.stdout.readline() == line
            child.terminate()
        assert child.wait(LIMIT_S) == -signal.SIGTERM


def test_a_command_runs_in_any_thread():
    statuses = []
    join_all(start_thread(lambda: statuses.append(run(lambda: 7))))
    assert statuses == [7]


def refuse(number):
    raise OSError(number, os.strerror(number), "/runs/a/run.json")


def test_what_the_system_refuses_is_one_line_and_a_file_that_is_not_there_a_bug_with_its_traceback(capsys):
    assert run(lambda: refuse(errno.EACCES)) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("t2t-try: error: ")
    assert "/runs/a/run.json" in line
    with pytest.raises(FileNotFoundError):
        run(lambda: refuse(errno.ENOENT))


@contextlib.contextmanager
def unread_output():
    """Standard output is a pipe whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    with contextlib.suppress(BrokenPipeError), open(writer, "w") as pipe, contextlib.redirect_stdout(pipe):
        yield


def write_to_nobody(path=""):
    """Writes to a pipe whose reader has gone: as an output, or as processes write to one another."""
    reader, writer = os.pipe()
    with open(writer, "wb", buffering=0) as pipe, StreamOutput(path or f"/dev/fd/{writer}") as output:
        os.close(reader)
        output.write(b"a", 1, {}) if path is not None else pipe.write(b"a")
    return 0


def test_an_output_that_nobody_reads_is_no_error_and_another_broken_pipe_is_one(capsys):
    for write in (lambda: print("a") or 0, lambda: write_to_nobody("-")):
        with unread_output():
            assert run(write) == 0
    assert run(write_to_nobody) == 0
    assert capsys.readouterr().err == ""
    assert run(lambda: write_to_nobody(None)) == 1
    assert capsys.readouterr().err.startswith("t2t-try: error: ")


class Full(io.StringIO):
    """A log on a full disk, or on a terminal that is gone."""

    def write(self, text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_error_that_nobody_can_read_has_its_status():
    def body():
        raise UserError("asked wrongly")

    with contextlib.redirect_stderr(Full()):
        assert run(body) == 2


def test_an_interrupt_while_a_command_prepares_to_log_is_answered_too(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("t2t.cli.common.logging_to_stderr", interrupted)
    assert run(lambda: 0) == 130
    assert capsys.readouterr().err == "t2t-try: interrupted\n"


# === Log lines and progress bars share a terminal ===
def on_screen(written):
    """Returns what a terminal shows: after a carriage return the line is overwritten."""
    lines = [""]
    for part in written.replace("\r", "\0\r").replace("\n", "\0\n").split("\0"):
        if part.startswith("\n"):
            lines.append(part[1:])
        else:
            text = part.removeprefix("\r")
            lines[-1] = text + lines[-1][len(text) :]
    return [line.rstrip() for line in lines]


def test_lines_stand_above_the_bar():
    bar = {"total": 4, "desc": "train", "bar_format": "{desc} {n} of {total}"}
    with contextlib.redirect_stderr(io.StringIO()) as screen, logging_to_stderr(), tqdm(file=screen, **bar) as bar:
        bar.update(2)
        logging.getLogger("t2t").info("a line")
        logging.getLogger("t2t").warning("and another, longer than the bar")
        bar.update(2)
    assert on_screen(screen.getvalue()) == ["a line", "warning: and another, longer than the bar", "train 4 of 4", ""]
