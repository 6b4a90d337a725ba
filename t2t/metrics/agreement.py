"""How far classes and numbers agree, where plain accuracy misleads: the figures that GLUE's tasks are judged by.

Source: Wang et al. 2019 (arXiv:1804.07461), section 3 and Table 1.
"""

from collections.abc import Callable, Sequence

import numpy as np

from t2t.metrics.base import Score, check_lines
from t2t.registry import register_metric


@register_metric("matthews")
def matthews(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Correlation of classes, from -1 to 1: Matthews 1975, for more than two classes Gorodkin 2004's.

    It is 0 if one side has a single class.
    """
    check_lines("matthews", hypotheses, references)
    classes = {label: number for number, label in enumerate(sorted({*hypotheses, *references}))}
    table = np.zeros((len(classes), len(classes)))
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        table[classes[reference], classes[hypothesis]] += 1
    lines, right = table.sum(), np.trace(table)
    of_references, of_hypotheses = table.sum(axis=1), table.sum(axis=0)
    covariance = right * lines - of_references @ of_hypotheses
    spread = (lines**2 - of_references @ of_references) * (lines**2 - of_hypotheses @ of_hypotheses)
    return Score("matthews", float(covariance / np.sqrt(spread)) if spread else 0.0)


@register_metric("f1_equivalent")
def f1_equivalent(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """F1 of finding the class `equivalent`, from 0 to 1."""
    return _f1("f1_equivalent", "equivalent", hypotheses, references)


@register_metric("f1_duplicate")
def f1_duplicate(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """F1 of finding the class `duplicate`, from 0 to 1."""
    return _f1("f1_duplicate", "duplicate", hypotheses, references)


def _f1(name: str, positive: str, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    check_lines(name, hypotheses, references)
    found, wanted = hypotheses.count(positive), references.count(positive)
    right = sum(one == other == positive for one, other in zip(hypotheses, references, strict=True))
    detail = {"found": found, "wanted": wanted, "right": right}
    return Score(name, 2 * right / max(1, found + wanted), detail=detail)


@register_metric("pearson")
def pearson(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Linear correlation of lines that are numbers, from -1 to 1; 0 where one side is a single number.

    A line that is not a number counts as the mean of its side's numbers.
    """
    return _correlation("pearson", hypotheses, references, lambda numbers: numbers)


@register_metric("spearman")
def spearman(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Correlation of the ranks of lines that are numbers, from -1 to 1; equal numbers share their mean rank.

    Lines that are not numbers count as in `pearson`.
    """
    return _correlation("spearman", hypotheses, references, _ranks)


def _correlation(
    name: str, hypotheses: Sequence[str], references: Sequence[str], scale: Callable[[np.ndarray], np.ndarray]
) -> Score:
    check_lines(name, hypotheses, references)
    (ours, our_gaps), (theirs, their_gaps) = (_deviations(lines, scale) for lines in (hypotheses, references))
    spread = np.sqrt((ours @ ours) * (theirs @ theirs))
    detail = {"hypotheses_without_number": our_gaps, "references_without_number": their_gaps}
    return Score(name, float(ours @ theirs / spread) if spread else 0.0, detail=detail)


def _deviations(lines: Sequence[str], scale: Callable[[np.ndarray], np.ndarray]) -> tuple[np.ndarray, int]:
    """Returns each number's deviation from the mean, in units of the largest, and how many lines have no number."""
    found = np.array([_number(line) for line in lines])
    known = np.isfinite(found)
    numbers = scale(found[known])
    deviations = np.zeros(len(lines))
    if known.any():
        numbers = numbers / (np.abs(numbers).max() or 1.0)  # so that nothing overflows
        deviations[known] = numbers - numbers.mean()
    return deviations, int((~known).sum())


def _number(line: str) -> float:
    try:
        return float(line)
    except ValueError:
        return np.nan


def _ranks(numbers: np.ndarray) -> np.ndarray:
    _, place, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place]
