"""Curves as they were written down, and a picture of them that is one."""

import struct

import pytest

from t2t.errors import UserError
from t2t.insight.curves import curves_of, plot_curves

LINES = [
    {"step": 10, "time": 1.0, "train/loss": 3.0},
    {"step": 20, "time": 2.0, "train/loss": 2.0, "dev/bleu": float("nan")},
    {"step": 10, "time": 3.0, "train/loss": 2.5},
    {"step": 20, "time": 4.0, "dev/bleu": 12.5, "note": "text"},
]


class Run:
    """What of a run directory is looked at."""

    path = "a_run"
    metrics_file = type("File", (), {"name": "metrics.jsonl"})

    def __init__(self, lines):
        self.metrics = lambda: iter(lines)


def test_every_figure_has_its_points_in_order_the_last_told_counts():
    assert curves_of(Run(LINES)) == {"dev/bleu": [(20, 12.5)], "train/loss": [(10, 2.5), (20, 2.0)]}


def test_a_run_without_figures_says_so():
    with pytest.raises(UserError, match=r"a_run has no figures of its training yet: metrics.jsonl is missing or empty"):
        curves_of(Run([]))


def test_a_picture_has_a_panel_for_each_figure(tmp_path):
    runs = {"one": curves_of(Run(LINES)), "_two $x$": {"train/loss": [(10, 1.0)]}}
    assert plot_curves(runs, tmp_path / "curves.png") == ["dev/bleu", "train/loss"]
    content = (tmp_path / "curves.png").read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    assert (width, height) == (920, 290)  # two panels of 4.6 x 2.9 inches beside each other, at 100 dots an inch


def test_other_kinds_of_pictures_are_refused(tmp_path):
    with pytest.raises(
        UserError, match=r"--plot=.*curves.svg: pictures are written as PNG; give a name that ends in .png"
    ):
        plot_curves({}, tmp_path / "curves.svg")
