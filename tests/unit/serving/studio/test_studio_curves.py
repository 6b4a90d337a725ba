"""Curves of runs: figures read while a run writes them, thinned and smoothed, sent to the page, and drawn."""

import base64
import json
import struct
from types import SimpleNamespace

import numpy as np
import pytest

from t2t.studio.curves import (
    HOURS,
    Curves,
    CurveView,
    curves_json,
    curves_of,
    figure_of_curves,
    plot_curves,
    running_mean,
    thin,
)
from t2t.studio.run_figures import RunFigures
from tests.errors import refused


@pytest.fixture
def file(tmp_path):
    return tmp_path / "metrics.jsonl"


def line(step, time=0.0, **figures):
    return json.dumps({"step": step, "time": time, **figures}) + "\n"


def read(file, figures=None):
    figures = figures or RunFigures(file)
    figures.read()
    return figures


def columns_of(figures, name):
    return [column.tolist() for column in figures.points(name)]


ODD = ["NaN", "Infinity", "1e300", "-5", "null", '"soon"', "1" + 400 * "0"]
"""Updates and times that cannot be right."""
WRONG = "".join(f'{{"step": 2, "time": {odd}, "a": 9}}\n{{"step": {odd}, "time": 1, "a": 9}}\n' for odd in ODD)
CASES = {
    "nothing": ("", 0.0, {}),
    "figures whatever else stands in their lines": (
        line(1, 5.0, a=1.0, b=None) + line(2, 6.0, a=2) + line(2, 7.0, b=3.5, c="text"), 5.0,
        {"a": [[1, 2], [5.0, 6.0], [1.0, 2.0]], "b": [[2], [7.0], [3.5]], "c": [[], [], []]},
    ),
    "of a repeated update the last, whatever other figures its line has": (
        line(1, 1.0, a=1.0) + line(2, 2.0, a=2.0) + line(1, 3.0, a=5.0, b=1.0) + line(2, 4.0, a=6.0), 1.0,
        {"a": [[1, 2], [3.0, 4.0], [5.0, 6.0]]},
    ),
    "no damaged lines": (
        line(1, 1.0, a=1.0) + "{torn\n[1]\n7\n\n" + '{"step": "x", "time": 1, "a": 9}\n' + line(2, 2.0, a=2.0), 1.0,
        {"a": [[1, 2], [1.0, 2.0], [1.0, 2.0]]},
    ),
    "no line whose update or time cannot be right": (
        WRONG + line(1, 5.0, a=1.0) + WRONG + line(3, 7.0, a=3.0), 5.0, {"a": [[1, 3], [5.0, 7.0], [1.0, 3.0]]},
    ),
}  # fmt: skip
"""What a file holds; the time at which the figures start, and columns_of of figures: updates, times, values."""


@pytest.mark.parametrize(("text", "start", "expected"), CASES.values(), ids=CASES)
def test_each_figure_has_its_points(file, text, start, expected):
    file.write_text(text)
    figures = read(file)
    assert {name: columns_of(figures, name) for name in expected} == expected
    assert figures.start() == start
    assert not text or figures.names()


def test_what_was_added_is_taken_up_and_a_torn_line_waits_for_its_end(file):
    figures = read(file)
    assert (figures.names(), figures.size, figures.start()) == ([], 0, 0.0)
    whole = line(2, a=2.0)
    for text, expected, size in (
        (line(1, a=1.0), [1.0], len(line(1, a=1.0))),
        (whole[:10], [1.0], len(line(1, a=1.0))),
        (whole[10:] + line(3, a=3.0), [1.0, 2.0, 3.0], len(line(1, a=1.0) + whole + line(3, a=3.0))),
    ):
        with file.open("a") as out:
            out.write(text)
        assert columns_of(read(file, figures), "a")[2] == expected
        assert figures.size == size


def test_another_file_of_the_name_is_read_from_its_beginning(file, tmp_path):
    file.write_text(line(1, a=1.0) + line(2, a=2.0))
    figures = read(file)
    other = tmp_path / "other"
    other.write_text(line(1, a=7.0) + line(2, a=8.0) + line(3, a=9.0))
    other.replace(file)
    assert columns_of(read(file, figures), "a")[2] == [7.0, 8.0, 9.0]
    file.write_text(line(1, a=4.0))
    assert columns_of(read(file, figures), "a")[2] == [4.0]
    file.unlink()
    assert read(file, figures).names() == []


# === Curves thinned to fewer points that look the same on a chart; means by hand ===
@pytest.mark.parametrize("count", [1, 4, 5, 11, 100, 101, 999, 5000])
@pytest.mark.parametrize("most", [4, 5, 10, 100, 101, 4999])
def test_few_points_are_kept_the_ends_and_every_extreme_among_them(count, most):
    values = np.random.default_rng(count).normal(size=count)
    kept = thin(values, most)
    assert len(kept) <= max(most, 4)
    assert (np.diff(kept) > 0).all()
    assert kept[0] == 0
    assert kept[-1] == count - 1
    assert values[kept].min() == values.min() or values.argmin() in (0, count - 1)
    assert values[kept].max() == values.max()
    if count <= most:
        assert len(kept) == count


def test_no_spike_is_lost_wherever_it_is():
    for place in range(1000):
        values = np.zeros(1000)
        values[place] = -1.0 if place % 2 else 1.0
        assert place in thin(values, 20)


def test_a_running_mean_is_of_the_neighbours_and_narrows_at_the_ends():
    np.testing.assert_allclose(running_mean(np.array([1.0, 2.0, 6.0, 3.0, 8.0]), 3), [1, 3, 11 / 3, 17 / 3, 8])
    values = np.random.default_rng(0).normal(size=200)
    by_hand = [values[i - min(5, i, 199 - i) : i + min(5, i, 199 - i) + 1].mean() for i in range(200)]
    np.testing.assert_allclose(running_mean(values, 11), by_hand)


@pytest.mark.parametrize("place", [0, 40, 299])
def test_a_very_large_value_is_in_no_mean_but_those_of_its_neighbours(place):
    """Such as a perplexity before training has begun."""
    values = np.full(300, 2.5)
    values[place] = np.exp(60.0)
    means, far = running_mean(values, 21), np.abs(np.arange(300) - place) > 10
    np.testing.assert_allclose(means[far], 2.5)
    np.testing.assert_allclose(means[place], values[place] / (1 if place in (0, 299) else 21))


@pytest.mark.parametrize("count", range(8))
def test_a_window_wider_than_the_curve_takes_what_there_is_and_a_mean_of_one_point_is_the_point(count):
    values = np.random.default_rng(count).normal(size=count)
    by_hand = [values[max(0, 2 * i - count + 1) : 2 * i + 1].mean() for i in range(count)]
    np.testing.assert_allclose(running_mean(values, 100), by_hand)
    np.testing.assert_array_equal(running_mean(values, 1), values)


# === Curves from the log, the points that are sent to the page, and plots as PNG files ===
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


def test_every_figure_has_its_points_in_order_up_to_a_checkpoint_and_a_run_without_any_says_so(tmp_path):
    found = curves_of(Run(tmp_path, LINES))
    assert found.points == {"dev/bleu": [(20, 12.5)], "train/loss": [(10, 2.5), (20, 2.0)]}
    assert curves_of(Run(tmp_path, LINES), 10).points == {"train/loss": [(10, 2.5)]}
    with refused("a_run", "9"):
        curves_of(Run(tmp_path, LINES), 9)
    with refused("a_run", "metrics.jsonl"):
        curves_of(Run(tmp_path, []))


MIXED = [{"step": 10, "time": 1.0, "train/loss": 3.0, "train/de/loss": 3.0, "train/learning_rate": 1.0}]
MIXED[0]["dev/teacher_forced/loss"] = 2


@pytest.mark.parametrize(
    ("objective", "noted"),
    [(None, True), ("likelihood", True), ("expected_reward", False), ("minimum_risk", False)],
)
def test_training_losses_of_the_likelihood_say_that_label_smoothing_is_part_of_them(objective, noted, tmp_path):
    own = {"objective": {"objective": objective}} if objective else {}
    notes = dict.fromkeys(("train/loss", "train/de/loss"), "with label smoothing 0.1")
    assert curves_of(Run(tmp_path, MIXED, 0.1, **own)).notes == (notes if noted else {})
    assert curves_of(Run(tmp_path, MIXED)).notes == {}


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
    smoothed = sent(run, most=50, smoothing=7)  # before points are left out
    assert smoothed["y"][5:-5] == pytest.approx([3.0] * len(smoothed["y"][5:-5]))  # the mean of 0 to 6
    assert smoothed["last"] == 1000 % 7
