"""Log lines and progress bars share a terminal."""

import contextlib
import io
import logging

from tqdm import tqdm

from t2t.cli.common import logging_to_stderr


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
