"""Progress bars of data generation."""

import contextlib
import io

from t2t.data.progress import ReadingProgress


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self):
        return True


def test_each_thing_that_is_read_has_a_bar_of_its_own():
    with contextlib.redirect_stderr(Terminal()) as screen:
        shown = ReadingProgress()
        for what, read in (("vocabulary", 10), ("dev", 2), ("dev", 5), ("train", 1)):
            shown.show(what, read)
        shown.close()
    left = [line.rpartition("\r")[2] for line in screen.getvalue().split("\n")[:-1]]
    assert [line.split(" examples")[0] for line in left] == ["vocabulary: 10.0", "dev: 5.00", "train: 1.00"]


def test_elsewhere_a_short_job_says_nothing(capsys, log_lines):
    shown = ReadingProgress()
    for read in range(1000):
        shown.show("train", read)
    shown.close()
    assert log_lines.messages == []
    assert capsys.readouterr().err == ""
