"""Correlations and F1 by hand, and compared with other formulas for the same metrics."""

import math

import numpy as np
import pytest

from t2t.metrics import compute


def value(name, hypotheses, references):
    return compute([name], hypotheses, references)[name].value


def test_matthews_of_two_classes_is_that_of_the_table():
    """3 true positives, 1 false positive, 2 false negatives, 4 true negatives: (3*4 - 1*2) / sqrt(4*5*5*6)."""
    hypotheses = ["yes"] * 4 + ["no"] * 6
    references = ["yes"] * 3 + ["no"] + ["yes"] * 2 + ["no"] * 4
    assert value("matthews", hypotheses, references) == pytest.approx(10 / math.sqrt(600))
    swapped = [["no", "yes"][label == "no"] for label in references]
    assert value("matthews", hypotheses, swapped) == pytest.approx(-10 / math.sqrt(600))
    assert value("matthews", ["no"] * 10, references) == 0.0
    assert value("matthews", references, references) == pytest.approx(1.0)


def test_matthews_of_many_classes_is_the_correlation_of_their_indicators():
    """Gorodkin's definition: the covariance of one-hot rows, summed over classes, by their spreads."""
    one, other = np.random.default_rng(1).integers(4, size=(2, 50))
    ours, theirs = (np.eye(4)[labels] - np.eye(4)[labels].mean(axis=0) for labels in (one, other))
    expected = (ours * theirs).sum() / math.sqrt((ours**2).sum() * (theirs**2).sum())
    assert value("matthews", list(map(str, one)), list(map(str, other))) == pytest.approx(expected)


@pytest.mark.parametrize("label", ["equivalent", "duplicate"])
def test_f1_is_of_the_class_in_its_name(label):
    name, no = f"f1_{label}", f"not_{label}"
    # 2 of 3 found are right, of 4 wanted: precision 2/3, recall 1/2.
    assert value(name, [label] * 3 + [no] * 3, [label, label, no, label, label, no]) == pytest.approx(4 / 7)
    assert value(name, [no], [no]) == 0.0


@pytest.mark.parametrize(
    ("hypotheses", "references", "pearson", "spearman"),
    [
        # Deviations -1, 0, 1 and -2, 1, 1: 3 / sqrt(2 * 6). Ranks 1, 2, 3 and 1, 2.5, 2.5: 1.5 / sqrt(2 * 1.5).
        ("1 2 3.0", "0 3 3", 3 / math.sqrt(12), 1.5 / math.sqrt(3)),
        ("4 4", "1 2", 0.0, 0.0),
        ("1 2", "5 3", -1.0, -1.0),
        ("1e308 -1e308 1e308", "2 1 2", 1.0, 1.0),  # overflows nothing
    ],
)
def test_correlations_by_hand(hypotheses, references, pearson, spearman):
    for name, expected in (("pearson", pearson), ("spearman", spearman)):
        assert value(name, hypotheses.split(), references.split()) == pytest.approx(expected)


def test_pearson_is_numpys_and_spearman_looks_at_ranks_alone():
    one, other = np.random.default_rng(2).normal(size=(2, 30))
    found = value("pearson", [repr(float(x)) for x in one], [repr(float(x)) for x in other])
    assert found == pytest.approx(np.corrcoef(one, other)[0, 1])
    assert value("spearman", ["1", "10", "100"], ["-3", "-2", "7"]) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["pearson", "spearman"])
@pytest.mark.parametrize("line", ["", "x", "nan", "1e999", "1,5"])
def test_what_is_no_number_tells_nothing(name, line):
    # Deviations -1, 0 (no number), 1 and -1, 0, 1: a missing prediction counts as the mean.
    found = compute([name], ["1", line, "3"], ["4", "5", "6"])[name]
    assert found.value == pytest.approx(1.0)
    assert found.detail == {"hypotheses_without_number": 1, "references_without_number": 0}
    assert value(name, [line], [line]) == 0.0
