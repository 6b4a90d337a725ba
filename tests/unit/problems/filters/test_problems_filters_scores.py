import pytest

from t2t.problems.filters.scores import SCORE, parse_score, score_filter
from tests.errors import refused


def test_a_score_is_a_column_of_a_line():
    assert parse_score("0.25", 1, "f") == 0.25
    assert parse_score("a b\tc d\t-1e-3\tmore", 3, "f") == -0.001
    assert parse_score(" 7 ", 1, "f") == 7


@pytest.mark.parametrize(("line", "column", "found"), [
    ("a\tb", 3, 2),
    ("0.5", 2, 1),
    ("a\tb", 2, "'b'"),
    ("", 1, "''"),
    ("nan", 1, "'nan'"),
    ("x" * 50, 1, f"'{'x' * 40}'"),
])  # fmt: skip
def test_lines_without_a_score_are_named(line, column, found):
    with refused("scores.txt,", "1,234,", found, "--train_score_column"):
        parse_score(line, column, "scores.txt, line 1,234")


def test_the_threshold_itself_is_kept():
    one = score_filter(0.5)
    assert [score for score in (0.4, 0.5, 0.6) if one.keeps({SCORE: score})] == [0.5, 0.6]
    assert one.reason == "with a score below 0.5"
