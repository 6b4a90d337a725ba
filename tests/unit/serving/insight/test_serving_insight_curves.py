"""Curves as they were written down, and a picture of them that is one."""

import struct
from types import SimpleNamespace

import pytest

from t2t.errors import UserError
from t2t.serving.insight.curves import Curves, curves_of, plot_curves

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

    def __init__(self, lines, smoothing=0.0):
        self.metrics = lambda: iter(lines)
        self.record = SimpleNamespace(hparams={"model": {"label_smoothing": smoothing}})


def test_every_figure_has_its_points_in_order_the_last_told_counts():
    found = curves_of(Run(LINES))
    assert found.points == {"dev/bleu": [(20, 12.5)], "train/loss": [(10, 2.5), (20, 2.0)]}


def test_the_curves_of_a_checkpoint_end_at_its_update():
    assert curves_of(Run(LINES), 10).points == {"train/loss": [(10, 2.5)]}
    with pytest.raises(UserError, match="a_run has no figures of its training up to update 9 yet"):
        curves_of(Run(LINES), 9)


MIXED = [
    {"step": 10, "train/loss": 3.0, "train/de/loss": 3.0, "train/learning_rate": 1.0, "dev/teacher_forced/loss": 2}
]


def test_training_losses_say_that_label_smoothing_is_part_of_them():
    said = "with label smoothing 0.1"
    assert curves_of(Run(MIXED, 0.1)).notes == {"train/loss": said, "train/de/loss": said}
    assert curves_of(Run(MIXED)).notes == {}


def drawn(monkeypatch, runs, path):
    """Draws curves; returns of each panel its title, the label of its y axis and its legend."""
    panels = []

    def save(canvas, file):
        for axes in canvas.figure.axes:
            legend = axes.get_legend()
            texts = [text.get_text() for text in legend.get_texts()] if legend else []
            panels.append((axes.get_title(), axes.get_ylabel(), texts))
        file.write(b"png")

    monkeypatch.setattr("matplotlib.backends.backend_agg.FigureCanvasAgg.print_png", save)
    plot_curves(runs, path / "curves.png")
    return panels


def test_a_picture_says_what_is_part_of_the_training_loss(monkeypatch, tmp_path):
    smoothed, plain = curves_of(Run(LINES, 0.1)), curves_of(Run(LINES))
    said = "with label smoothing 0.1"
    assert drawn(monkeypatch, {"a": smoothed}, tmp_path) == [("dev/bleu", "", []), ("train/loss", said, [])]
    both = drawn(monkeypatch, {"a": smoothed, "b": plain}, tmp_path)
    assert both == [("dev/bleu", "", ["a", "b"]), ("train/loss", "", [f"a ({said})", "b"])]


def test_a_run_without_figures_says_so():
    with pytest.raises(UserError, match=r"a_run has no figures of its training yet: metrics.jsonl is missing or empty"):
        curves_of(Run([]))


def test_a_picture_has_a_panel_for_each_figure(tmp_path):
    runs = {"one": curves_of(Run(LINES)), "_two $x$": Curves({"train/loss": [(10, 1.0)]}, {})}
    assert plot_curves(runs, tmp_path / "curves.png") == ["dev/bleu", "train/loss"]
    content = (tmp_path / "curves.png").read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    assert (width, height) == (920, 290)  # two panels of 4.6 x 2.9 inches side by side, at 100 dots an inch


def test_other_kinds_of_pictures_are_refused(tmp_path):
    with pytest.raises(
        UserError, match=r"--plot=.*curves.svg: pictures are written as PNG; give a name that ends in .png"
    ):
        plot_curves({}, tmp_path / "curves.svg")
