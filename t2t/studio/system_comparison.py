"""Compares two systems on the same lines: scores, sentences that improved or got worse, and kinds of differences.

The buckets by length and word frequency follow compare-mt (Neubig et al. 2019, arXiv:1903.07926).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from t2t.metrics.base import check_lines
from t2t.metrics.paired import PairedScore, paired_bootstrap
from t2t.metrics.text import SACREBLEU_METRICS, SentenceBleu, bleu, bleu_tokenizer, sacrebleu_metric
from t2t.studio.word_changes import word_changes

LENGTHS = (10, 20, 30, 40)
"""Upper bounds of the reference length buckets, in words; a last bucket has longer references."""
FREQUENCIES = (1, 4)
"""Upper bounds of the word frequency buckets, counted over all references; a last bucket has more frequent words."""


def compare_systems(
    references: Sequence[str], first: Sequence[str], second: Sequence[str], language: str = ""
) -> dict[str, Any]:
    """Returns a comparison of the second system with the first, the baseline, as JSON.

    Args:
        references: one or more lines.
        first: outputs of the baseline, line by line.
        second: outputs of the other system.
        language: language code of the lines, selects BLEU's tokenizer.

    Returns:
        `scores`, BLEU and chrF of both with the p-value of paired bootstrap resampling; `sentences`, each with both
        scores and the differing words; `lengths`, BLEU by reference length; `frequencies`, F1 of words by their
        frequency in the references.

    Raises:
        UserError: unequal numbers of lines.
    """
    for lines in (first, second):
        check_lines("comparison", lines, references)
    metrics: dict[str, dict[str, Any]] = {"bleu": {"tokenize": bleu_tokenizer(language)}, "chrf": {}}
    scores = paired_bootstrap([("first", first), ("second", second)], references, metrics)
    return {
        "scores": [_score_json(score) for score in scores],
        "sentences": _sentences(references, first, second, language),
        "lengths": _by_length(references, (first, second), language),
        "frequencies": _by_frequency(references, (first, second)),
    }


def _score_json(score: PairedScore) -> dict[str, Any]:
    names = ("metric", "system", "value", "mean", "interval", "p_value", "signature")
    return {name: getattr(score, name) for name in names}


def _sentences(
    references: Sequence[str], first: Sequence[str], second: Sequence[str], language: str
) -> list[dict[str, Any]]:
    sentence_bleu, chrf = SentenceBleu(language), sacrebleu_metric("chrf", SACREBLEU_METRICS["chrf"], {})
    found = []
    for reference, *outputs in zip(references, first, second, strict=True):
        found.append(
            {
                "reference": reference,
                "outputs": word_changes(*outputs),
                "bleu": [sentence_bleu.score(output, reference) for output in outputs],
                "chrf": [chrf.sentence_score(output, [reference]).score for output in outputs],
            }
        )
    return found


def _label(interval: int, bounds: Sequence[int]) -> str:
    """`1-10`, `11-20`, ..., `over 40`."""
    if interval == len(bounds):
        return f"over {bounds[-1]}"
    lowest = bounds[interval - 1] + 1 if interval else 1
    return str(lowest) if lowest == bounds[interval] else f"{lowest}-{bounds[interval]}"


def _interval_of(number: int, bounds: Sequence[int]) -> int:
    return sum(number > bound for bound in bounds)


def _by_length(references: Sequence[str], systems: Iterable[Sequence[str]], language: str) -> list[dict[str, Any]]:
    """Returns the BLEU of each system by reference length, for every bucket that occurs."""
    intervals = [_interval_of(len(reference.split()), LENGTHS) for reference in references]
    systems, rows = list(systems), []
    for interval in sorted(set(intervals)):
        lines = [number for number, found in enumerate(intervals) if found == interval]
        own = [references[number] for number in lines]
        values = [bleu([system[number] for number in lines], own, language).value for system in systems]
        rows.append({"label": _label(interval, LENGTHS), "count": len(lines), "values": values})
    return rows


def _by_frequency(references: Sequence[str], systems: Iterable[Sequence[str]]) -> list[dict[str, Any]]:
    """Returns the F1 of words of each system, in percent, by the frequency of a word in all references.

    A word of an output counts as correct at most as often as its reference has it. Words in no reference are ignored.
    """
    expected = Counter(word for reference in references for word in reference.split())
    systems = list(systems)
    totals, rows = [0] * (len(FREQUENCIES) + 1), []
    for count in expected.values():
        totals[_interval_of(count, FREQUENCIES)] += count
    right = [[0] * len(totals) for _ in systems]
    written = [[0] * len(totals) for _ in systems]
    for number, system in enumerate(systems):
        for output, reference in zip(system, references, strict=True):
            own = Counter(reference.split())
            for word, count in Counter(output.split()).items():
                if word in expected:
                    interval = _interval_of(expected[word], FREQUENCIES)
                    written[number][interval] += count
                    right[number][interval] += min(count, own[word])
    for interval, total in enumerate(totals):
        if total:
            values = [200 * r[interval] / (w[interval] + total) for r, w in zip(right, written, strict=True)]
            rows.append({"label": _label(interval, FREQUENCIES), "count": total, "values": values})
    return rows
