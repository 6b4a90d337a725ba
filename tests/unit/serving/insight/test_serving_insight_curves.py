"""Curves from the log, the points that are sent to the page, and plots as PNG files."""

import base64
import json
import struct
from types import SimpleNamespace

import numpy as np
import pytest

from t2t.serving.insight.curves import HOURS, Curves, CurveView, curves_json, curves_of, figure_of_curves, plot_curves
from t2t.serving.insight.run_figures import RunFigures
from tests.errors import refused

LINES = [
    {"step": 10, "time": 1.0, "train/loss": 3.0},
    {"step": 20, "time": 2.0, "train/loss": 2.0, "dev/bleu": None},
    {"step": 10, "time": 3.0, "train/loss": 2.5},
    {"step": 20, "time": 4.0, "dev/bleu": 12.5, "note": "text"},
]


class Run:
    """The parts of a run directory that are used here."""

    path = "a_run"

    def __init__(self, folder, lines, smoothing=0.0, **objective):
        self.metrics_file = folder / "metrics.jsonl"
        self.metrics_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.record = SimpleNamespace(hparams={"model": {"label_smoothing": smoothing}, **objective})


def test_every_figure_has_its_points_in_order_the_last_told_counts(tmp_path):
    found = curves_of(Run(tmp_path, LINES))
    assert found.points == {"dev/bleu": [(20, 12.5)], "train/loss": [(10, 2.5), (20, 2.0)]}


def test_the_curves_of_a_checkpoint_end_at_its_update(tmp_path):
    assert curves_of(Run(tmp_path, LINES), 10).points == {"train/loss": [(10, 2.5)]}
    with refused("a_run", "9"):
        curves_of(Run(tmp_path, LINES), 9)


MIXED = [
    {
        "step": 10, "time": 1.0, "train/loss": 3.0, "train/de/loss": 3.0, "train/learning_rate": 1.0,
        "dev/teacher_forced/loss": 2,
    }
]  # fmt: skip


def test_training_losses_say_that_label_smoothing_is_part_of_them(tmp_path):
    said = "with label smoothing 0.1"
    assert curves_of(Run(tmp_path, MIXED, 0.1)).notes == {"train/loss": said, "train/de/loss": said}
    assert curves_of(Run(tmp_path, MIXED)).notes == {}


@pytest.mark.parametrize(("objective", "noted"), [("likelihood", 2), ("expected_reward", 0), ("minimum_risk", 0)])
def test_only_losses_of_the_likelihood_are_smoothed(objective, noted, tmp_path):
    run = Run(tmp_path, MIXED, 0.1, objective={"objective": objective})
    assert len(curves_of(run).notes) == noted


def test_a_picture_says_what_is_part_of_the_training_loss(tmp_path):
    def drawn(runs):
        for axes in figure_of_curves(runs).axes:
            legend = axes.get_legend()
            texts = [text.get_text() for text in legend.get_texts()] if legend else []
            yield axes.get_title(), axes.get_ylabel(), texts

    smoothed, plain = curves_of(Run(tmp_path, LINES, 0.1)), curves_of(Run(tmp_path, LINES))
    said = "with label smoothing 0.1"
    assert list(drawn({"a": smoothed})) == [("dev/bleu", "", []), ("train/loss", said, [])]
    both = list(drawn({"a": smoothed, "b": plain}))
    assert both == [("dev/bleu", "", ["a", "b"]), ("train/loss", "", [f"a ({said})", "b"])]


def test_a_run_without_figures_says_so(tmp_path):
    with refused("a_run", "metrics.jsonl"):
        curves_of(Run(tmp_path, []))


def test_a_picture_has_a_panel_for_each_figure_and_is_a_png(tmp_path):
    runs = {"one": curves_of(Run(tmp_path, LINES)), "_two $\\x$": Curves({"train/loss": [(10, 1.0)]}, {})}
    assert plot_curves(runs, tmp_path / "curves.png") == ["dev/bleu", "train/loss"]
    content = (tmp_path / "curves.png").read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    assert (width, height) == (920, 290)  # two panels of 4.6 x 2.9 inches side by side, at 100 dots an inch
    with refused(f"--plot={tmp_path}/curves.svg:", ".png"):
        plot_curves({}, tmp_path / "curves.svg")


def unpacked(numbers):
    return np.frombuffer(base64.b64decode(numbers["bdata"]), f"<{numbers['dtype']}").tolist()


def sent(run, **view):
    """Returns the curve of a run's training loss as sent to the page, with x and y as numbers."""
    figures = RunFigures(run.metrics_file)
    figures.read()
    curve = curves_json(run, figures, CurveView(**view))["figures"]["train/loss"]
    return curve | {axis: unpacked(curve[axis]) for axis in "xy"}


LONG = [{"step": n, "time": 100.0 + 1800 * n, "train/loss": float(n % 7)} for n in range(1, 1001)]


def test_curves_are_sent_by_update_and_by_time_with_what_they_end_at(tmp_path):
    run = Run(tmp_path, LONG[:4])
    ends = {"points": 4, "last": 4.0, "last_update": 4}
    assert sent(run) == {"x": [1, 2, 3, 4], "y": [1, 2, 3, 4], **ends}
    assert sent(run, by=HOURS) == {"x": [0, 0.5, 1, 1.5], "y": [1, 2, 3, 4], **ends}
    assert sent(run, last_update=2) == {"x": [1, 2], "y": [1, 2], "points": 2, "last": 2.0, "last_update": 2}


RESUMED = [
    {"step": n, "time": 3600.0 * (n + late), "train/loss": 10.0 * late + n}
    for steps, late in ((range(11), 0), (range(6, 8), 20))
    for n in steps
]
"""A report every hour up to update 10; a crash, after which updates 6 and 7 are repeated, 20 hours later."""


def test_by_hours_a_resumed_run_is_in_the_order_of_its_reports(tmp_path):
    run = Run(tmp_path, RESUMED)
    whole = sent(run, by=HOURS)
    assert whole["x"] == [0, 1, 2, 3, 4, 5, 8, 9, 10, 26, 27]
    assert whole["y"] == [0, 1, 2, 3, 4, 5, 8, 9, 10, 206, 207]
    assert sent(run, by=HOURS, smoothing=3)["y"][-3:] == pytest.approx([(9 + 10 + 206) / 3, (10 + 206 + 207) / 3, 207])
    assert sent(run, by=HOURS, start=8.5, end=9.5)["x"] == [8, 9, 10]  # with a neighbour on each side
    assert sent(run)["x"] == list(range(11))


def test_of_a_long_curve_few_points_are_sent_and_all_of_a_part_that_is_looked_at(tmp_path):
    run = Run(tmp_path, LONG)
    whole = sent(run, most=50)
    assert len(whole["x"]) <= 50
    assert (whole["x"][0], whole["x"][-1], whole["points"]) == (1, 1000, 1000)
    assert {min(whole["y"]), max(whole["y"])} == {0, 6}
    part = sent(run, most=50, start=500.5, end=520)
    assert part["x"] == list(range(500, 522))  # with a neighbour on each side, to which its lines lead


def test_smoothing_comes_before_points_are_left_out(tmp_path):
    run = Run(tmp_path, LONG)
    found = sent(run, most=50, smoothing=7)
    assert found["y"][5:-5] == pytest.approx([3.0] * len(found["y"][5:-5]))  # the mean of 0 to 6
    assert found["last"] == 1000 % 7
