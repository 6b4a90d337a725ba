"""Progress bars on a terminal and lines elsewhere, with a fake clock."""

import contextlib
import errno
import io
import logging
import math
import os
import re
import termios
import threading

import pytest

from t2t.files import progress
from t2t.files.progress import Progress, about, clock, spark_line, write_line


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

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
    for seconds, count, logged in ((29.0, 4, 0), (11.0, 6, 1)):
        pass_seconds(seconds)
        shown.add(count)
        assert len(lines()) == logged
    assert lines() == ["decoded: 1,030 of 1,100 sentences, 0.2 sentences/s, 0:04:40 left"]
    shown.show_figures(["loss 2.5"])  # which go with a bar only
    pass_seconds(29.0)
    shown.add(1)
    shown.close()
    assert len(lines()) == 1


def test_nobody_knows_how_long_it_takes_without_an_end_or_before_anything_is_done(pass_seconds, lines):
    endless = Progress("train", "examples", out=io.StringIO(), seconds=10.0)
    begun = Progress("train", "examples", total=10, done=4, out=io.StringIO(), seconds=10.0)
    pass_seconds(10.0)
    endless.move_to(12_345)
    assert lines() == ["train: 12,345 examples, 1,234.5 examples/s"]
    assert (endless.time_left(), begun.rate(), begun.time_left()) == (None, 0.0, None)
    assert str(begun) == "train: 4 of 10 examples, 0.0 examples/s"


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
    shown.show_figures(["loss 1"])
    write_line("a line", out)
    shown.close()
    assert not shown.on_terminal


def test_a_bar_on_a_terminal_starts_no_thread_and_stands_below_other_lines(lines):
    out, before = Terminal(), set(threading.enumerate())
    shown = Progress("training", "updates", total=8, done=2, out=out, seconds=0.0)
    assert shown.on_terminal
    write_line("a line", out)
    shown.move_to(8)
    shown.show_figures(["loss 2.5"])
    shown.close()
    assert set(threading.enumerate()) <= before
    assert not shown.on_terminal
    assert lines() == []
    above, _, below = out.getvalue().partition("a line\n")
    assert above.endswith("\r")  # what was drawn has been taken away
    assert "training:  25%" in below
    last = below.rpartition("\r")[2]
    assert last.startswith("training: 100%")
    assert "8/8" in last
    assert "loss 2.5" in last


FIGURES = ("loss 5.123", "12,345 target tokens/s", "lr 1.00e-03", "2,345 target tokens/update")


@contextlib.contextmanager
def terminal_of(columns):
    """Yields a stream to a terminal with `columns` columns, and a function that returns what was written to it."""
    reader, writer = os.openpty()
    termios.tcsetwinsize(writer, (24, columns))
    os.set_blocking(reader, False)
    with open(writer, "w", encoding="utf-8") as out, open(reader, "rb", buffering=0) as screen:
        yield out, lambda: screen.read().decode()


@pytest.fixture
def draw(monkeypatch):
    """Returns a function that draws a bar after 160 updates in 62 s at a given terminal width and returns its line."""
    now = [1000.0]
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])

    def draw_bar(columns, total=1600, figures=FIGURES):
        with terminal_of(columns) as (out, written):
            shown = Progress("training", "updates", total=total, out=out)
            now[0] += 62.0
            shown.move_to(160)
            shown.show_figures(figures)
            line = written().rpartition("\r")[2]
            shown.close()
        assert len(line) < columns
        return line.rstrip()

    return draw_bar


@pytest.mark.parametrize("total", [1600, 300_000, None])
@pytest.mark.parametrize("columns", [30, 40, 60, 80, 110, 200])
def test_a_bar_fits_its_terminal_and_cuts_no_figure(columns, total, draw):
    line = draw(columns, total)
    assert line.startswith("training:")
    assert "160" in line
    _, *shown = line.partition(" [")[2].removesuffix("]").split(", ", 1) if "[" in line else [""]
    told = ", ".join(shown)
    rest = re.sub(r"^ *2.58 updates/s(, |$)", "", told)
    assert rest == ", ".join(FIGURES)[: len(rest)]
    assert not rest or any(rest.endswith(figure) for figure in FIGURES)


@pytest.mark.parametrize(("columns", "count"), [(60, 1), (80, 1), (110, 2), (200, 4)])
def test_the_most_important_figures_stay_and_so_does_the_bar(columns, count, draw):
    line = draw(columns)
    assert [figure for figure in FIGURES if figure in line] == list(FIGURES[:count])
    assert len(line.partition("|")[2].partition("|")[0]) >= 6
    assert line.startswith("training:  10%|")


def test_a_bar_without_figures_has_its_rate_where_that_fits(draw):
    assert " updates/s]" in draw(80, figures=())
    assert "updates/s" not in draw(40, figures=())


@pytest.mark.parametrize(("values", "width", "line"), [
    ([8, 7, 6, 5, 4, 3, 2, 1], 8, "█▇▆▅▄▃▂▁"),
    ([0, 0, 10, 10, 0, 0], 3, "▁█▁"),  # means of two each
    ([1.5, 1.5], 8, "▁▁"),
    ([math.nan, 1, math.inf, 2], 8, "▁█"),
    *(([], 8, ""), ([3], 8, "▁")),
])  # fmt: skip
def test_a_curve_in_a_line(values, width, line):
    assert spark_line(values, width) == line


def test_clock():
    for seconds, text in ((0, "0:00:00"), (59.6, "0:01:00"), (3599, "0:59:59"), (100 * 3600 + 61, "100:01:01")):
        assert clock(seconds) == text


def test_a_rough_duration():
    seconds = {0.4: "1 s", 89: "89 s", 90: "2 min", 5399: "90 min", 5400: "1.5 h", 172_799: "48.0 h", 3e5: "3.5 days"}
    assert {one: about(one) for one in seconds} == seconds
