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


def test_a_run_without_figures_has_none(file):
    figures = read(file)
    assert (figures.names(), figures.size, figures.start()) == ([], 0, 0.0)


def test_each_figure_has_its_points_whatever_else_stands_in_their_lines(file):
    file.write_text(line(1, 5.0, a=1.0, b=None) + line(2, 6.0, a=2) + line(2, 7.0, b=3.5, c="text"))
    figures = read(file)
    assert columns(figures, "a") == [[1, 2], [5.0, 6.0], [1.0, 2.0]]
    assert columns(figures, "b") == [[2], [7.0], [3.5]]
    assert columns(figures, "c") == [[], [], []]
    assert figures.start() == 5.0


def test_of_a_repeated_update_the_last_counts_whatever_other_figures_its_line_has(file):
    file.write_text(line(1, 1.0, a=1.0) + line(2, 2.0, a=2.0) + line(1, 3.0, a=5.0, b=1.0) + line(2, 4.0, a=6.0))
    assert columns(read(file), "a") == [[1, 2], [3.0, 4.0], [5.0, 6.0]]


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


def test_damaged_lines_and_what_is_no_line_of_figures_are_left_out(file):
    file.write_text(line(1, a=1.0) + "{torn\n[1]\n7\n\n" + '{"step": "x", "time": 1, "a": 9}\n' + line(2, a=2.0))
    assert columns(read(file), "a")[2] == [1.0, 2.0]


@pytest.mark.parametrize("odd", ["NaN", "Infinity", "1e300", "-5", "null", '"soon"', "1" + 400 * "0"])
def test_a_line_whose_update_or_time_cannot_be_right_is_left_out(file, odd):
    lines = f'{{"step": 2, "time": {odd}, "a": 9}}\n{{"step": {odd}, "time": 1, "a": 9}}\n'
    file.write_text(lines + line(1, 5.0, a=1.0) + lines + line(3, 7.0, a=3.0))
    figures = read(file)
    assert columns(figures, "a") == [[1, 3], [5.0, 7.0], [1.0, 3.0]]
    assert figures.start() == 5.0


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
