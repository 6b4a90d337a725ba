"""ROUGE by hand."""

import sys

import pytest

from t2t.metrics import compute
from tests.errors import refused

REFERENCES = ["the cat lay on the mat", "a b c", "He was running."]
HYPOTHESES = ["the cat sat on a mat", "c b a", "he runs"]


@pytest.mark.parametrize(
    ("name", "by_hand"),
    [
        # Common words: the, cat, on and mat of 6 and 6; all of 3; he and run of 2 and 3.
        ("rouge_1_fscore", [4 / 6, 1.0, 2 * 1.0 * (2 / 3) / (1 + 2 / 3)]),
        # Of five pairs on either side `the cat`; none; none: `he run` against `he wa`, `wa run`.
        ("rouge_2_fscore", [1 / 5, 0.0, 0.0]),
        # the cat on mat; one letter; he run.
        ("rouge_l_fscore", [4 / 6, 1 / 3, 2 * 1.0 * (2 / 3) / (1 + 2 / 3)]),
    ],
)
def test_a_mean_of_lines_by_hand(name, by_hand):
    (score,) = compute([name], HYPOTHESES, REFERENCES).values()
    assert score.value == pytest.approx(sum(by_hand) / 3)
    assert score.higher_is_better
    assert "stem:yes|version:rouge-score." in str(score)


def test_empty_lines_count_as_nothing_found():
    assert compute(["rouge_l_fscore"], ["", "a"], ["a b", "a"])["rouge_l_fscore"].value == pytest.approx(0.5)


def test_without_its_package_the_metric_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    monkeypatch.delitem(sys.modules, "t2t.metrics.rouge", raising=False)
    with refused("ROUGE", "rouge_score", "t2t-keras[rouge]"):
        __import__("t2t.metrics.rouge")
