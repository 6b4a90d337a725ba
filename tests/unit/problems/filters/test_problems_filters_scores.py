import pytest

from t2t.errors import UserError
from t2t.problems.filters.scores import SCORE, parse_score, score_filter


def test_a_score_is_a_column_of_a_line():
    assert parse_score("0.25", 1, "f") == 0.25
    assert parse_score("a b\tc d\t-1e-3\tmore", 3, "f") == -0.001
    assert parse_score(" 7 ", 1, "f") == 7


@pytest.mark.parametrize(
    ("line", "column", "said"),
    [
        ("a\tb", 3, "has 2 columns and the score is asked for in column 3; correct the file or --train_score_column"),
        ("0.5", 2, "has 1 column and the score is asked for in column 2"),
        ("a\tb", 2, "has 'b' where a score is asked for, which is a finite number; correct the file or"),
        ("", 1, "has '' where a score is asked for"),
        ("nan", 1, "has 'nan' where a score is asked for"),
        ("x" * 50, 1, f"has '{'x' * 40}' where a score is asked for"),
    ],
)
def test_lines_without_a_score_are_named(line, column, said):
    with pytest.raises(UserError) as raised:
        parse_score(line, column, "scores.txt, line 1,234")
    assert str(raised.value).startswith(f"scores.txt, line 1,234, {said}")


def test_the_threshold_itself_is_kept():
    one = score_filter(0.5)
    assert [score for score in (0.4, 0.5, 0.6) if one.keeps({SCORE: score})] == [0.5, 0.6]
    assert one.reason == "with a score below 0.5"
