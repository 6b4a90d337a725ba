"""Reading metrics while a run writes them: incomplete lines are read later, damaged lines are skipped."""

import json

import pytest

from t2t.serving.insight.run_figures import RunFigures


@pytest.fixture
def file(tmp_path):
    return tmp_path / "metrics.jsonl"


def line(step, time=0.0, **figures):
    return json.dumps({"step": step, "time": time, **figures}) + "\n"


def read(file, figures=None):
    figures = figures or RunFigures(file)
    figures.read()
    return figures


def columns(figures, name):
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
"""What a file holds; the time at which the figures start, and columns of figures: updates, times, values."""


@pytest.mark.parametrize(("text", "start", "expected"), CASES.values(), ids=CASES)
def test_each_figure_has_its_points(file, text, start, expected):
    file.write_text(text)
    figures = read(file)
    assert {name: columns(figures, name) for name in expected} == expected
    assert figures.start() == start
    assert not text or figures.names()


def test_a_run_without_a_file_has_no_figures(file):
    figures = read(file)
    assert (figures.names(), figures.size, figures.start()) == ([], 0, 0.0)


def test_what_was_added_is_taken_up_and_a_torn_line_waits_for_its_end(file):
    file.write_text(line(1, a=1.0))
    figures = read(file)
    assert columns(figures, "a")[2] == [1.0]
    whole = line(2, a=2.0)
    with file.open("a") as out:
        out.write(whole[:10])
    assert columns(read(file, figures), "a")[2] == [1.0]
    assert figures.size == len(line(1, a=1.0))
    with file.open("a") as out:
        out.write(whole[10:] + line(3, a=3.0))
    assert columns(read(file, figures), "a")[2] == [1.0, 2.0, 3.0]
    assert figures.size == file.stat().st_size


def test_another_file_of_the_name_is_read_from_its_beginning(file, tmp_path):
    file.write_text(line(1, a=1.0) + line(2, a=2.0))
    figures = read(file)
    other = tmp_path / "other"
    other.write_text(line(1, a=7.0) + line(2, a=8.0) + line(3, a=9.0))
    other.replace(file)
    assert columns(read(file, figures), "a")[2] == [7.0, 8.0, 9.0]
    file.write_text(line(1, a=4.0))
    assert columns(read(file, figures), "a")[2] == [4.0]
    file.unlink()
    assert read(file, figures).names() == []
