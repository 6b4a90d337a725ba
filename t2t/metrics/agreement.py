"""How far classes and numbers agree, where plain accuracy misleads: the figures that GLUE's tasks are judged by.

Source: Wang et al. 2019 (arXiv:1804.07461), section 3 and Table 1.
"""

from collections.abc import Sequence

import numpy as np

from t2t.errors import UserError
from t2t.metrics.base import Score, check_lines, register_metric


@register_metric("matthews")
def matthews(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Correlation of classes, from -1 to 1: Matthews 1975, for more than two classes Gorodkin 2004's.

    0 where one side has a single class: it tells nothing.
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
    """Linear correlation of lines that are numbers, from -1 to 1; 0 where one side is a single number."""
    return Score("pearson", _correlation(*_numbers("pearson", hypotheses, references)))


@register_metric("spearman")
def spearman(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Correlation of the ranks of lines that are numbers, from -1 to 1; equal numbers share their mean rank."""
    return Score("spearman", _correlation(*map(_ranks, _numbers("spearman", hypotheses, references))))


def _numbers(name: str, hypotheses: Sequence[str], references: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    check_lines(name, hypotheses, references)
    return _parsed(name, "hypothesis", hypotheses), _parsed(name, "reference", references)


def _parsed(name: str, side: str, lines: Sequence[str]) -> np.ndarray:
    numbers = np.empty(len(lines))
    for place, line in enumerate(lines):
        try:
            numbers[place] = float(line)
        except ValueError:
            numbers[place] = np.nan
        if not np.isfinite(numbers[place]):
            raise UserError(f"{name}: {side} {place + 1} is {line!r}; each line must be a number, such as 3.2")
    return numbers


def _ranks(numbers: np.ndarray) -> np.ndarray:
    _, place, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place]


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    one, other = one - one.mean(), other - other.mean()
    spread = np.sqrt((one @ one) * (other @ other))
    return float(one @ other / spread) if spread else 0.0
