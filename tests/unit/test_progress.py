"""Bars on a terminal and lines elsewhere, with a clock that the test turns."""

import errno
import io
import logging

import pytest

from t2t import progress
from t2t.progress import Progress, clock, write_line


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self):
        return True


@pytest.fixture
def pass_seconds(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])

    def pass_(seconds):
        now[0] += seconds

    return pass_


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, logger="t2t")
    return lambda: caplog.messages


def test_lines_elsewhere_than_on_a_terminal_come_now_and_then(pass_seconds, lines):
    """10 of the 80 that were left in 40 seconds: 0.25 a second, so the other 70 take 280 seconds."""
    shown = Progress("decoded", "sentences", total=1100, done=1020, out=io.StringIO(), seconds=30.0)
    pass_seconds(29.0)
    shown.add(4)
    assert lines() == []
    pass_seconds(11.0)
    shown.add(6)
    assert lines() == ["decoded: 1,030 of 1,100 sentences, 0.2 sentences/s, 0:04:40 left"]
    pass_seconds(29.0)
    shown.add(1)
    assert len(lines()) == 1
    shown.close()
    assert len(lines()) == 1


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), OSError(errno.EIO, "gone"), BrokenPipeError()])
def test_what_cannot_be_shown_ends_no_job(error):
    class Gone(Terminal):
        broken = False

        def write(self, text):
            if self.broken:
                raise error
            return super().write(text)

    out = Gone()
    shown = Progress("train", "examples", total=9, out=out)
    out.broken = True
    shown.add(1)
    shown.show_figures("loss 1")
    write_line("a line", out)
    shown.close()
    assert not shown.on_terminal


def test_without_a_known_end_there_is_no_time_left(pass_seconds, lines):
    shown = Progress("train", "examples", out=io.StringIO(), seconds=10.0)
    pass_seconds(10.0)
    shown.move_to(12_345)
    assert lines() == ["train: 12,345 examples, 1,234.5 examples/s"]
    assert shown.time_left() is None


def test_before_anything_is_done_nobody_knows_how_long_it_takes(pass_seconds):
    shown = Progress("train", "examples", total=10, done=4, out=io.StringIO())
    pass_seconds(5.0)
    assert (shown.rate(), shown.time_left()) == (0.0, None)
    assert str(shown) == "train: 4 of 10 examples, 0.0 examples/s"


def test_a_bar_on_a_terminal(lines):
    out = Terminal()
    shown = Progress("training", "updates", total=8, done=2, out=out, seconds=0.0)
    assert shown.on_terminal
    shown.move_to(8)
    shown.show_figures("loss 2.5")
    shown.close()
    assert not shown.on_terminal
    assert lines() == []
    last = out.getvalue().rpartition("\r")[2]
    assert last.startswith("training: 100%")
    assert "8/8" in last
    assert "loss 2.5" in last


def test_a_line_stands_above_the_bar(lines):
    out = Terminal()
    shown = Progress("training", "updates", total=8, out=out)
    write_line("a line", out)
    shown.close()
    before, _, after = out.getvalue().partition("a line\n")
    assert before.endswith("\r")  # what was drawn has been taken away
    assert "training:   0%" in after


def test_figures_go_with_a_bar_only(lines):
    out = io.StringIO()
    Progress("training", "updates", out=out).show_figures("loss 2.5")
    assert (out.getvalue(), lines()) == ("", [])


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00:00"), (59.6, "0:01:00"), (3599, "0:59:59"), (100 * 3600 + 61, "100:01:01")]
)
def test_clock(seconds, text):
    assert clock(seconds) == text
