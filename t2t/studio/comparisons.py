"""Compares outputs: of two systems on the same lines, and of a run from evaluation to evaluation, word by word.

The buckets by length and word frequency follow compare-mt (Neubig et al. 2019, arXiv:1903.07926).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Any

from t2t.checkpoints.dev_outputs import DevOutputs
from t2t.metrics.base import check_lines
from t2t.metrics.paired import paired_bootstrap
from t2t.metrics.text import SACREBLEU_METRICS, SentenceBleu, bleu, bleu_tokenizer, sacrebleu_metric

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
    names = ("metric", "system", "value", "mean", "interval", "p_value", "signature")
    return {
        "scores": [{name: getattr(score, name) for name in names} for score in scores],
        "sentences": _sentences(references, first, second, language),
        "lengths": _by_length(references, (first, second), language),
        "frequencies": _by_frequency(references, (first, second)),
    }


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


Marked = list[tuple[str, bool]]
"""Segments of a text in order, to be joined by spaces, each with whether the other text lacks it there."""

MOST_STEPS = 20_000_000
"""Texts whose words may take more steps to compare are compared as wholes. Prose of a thousand words takes fewer."""


def word_changes(first: str, second: str) -> tuple[Marked, Marked]:
    """Marks in both texts the words that the other one lacks; words are separated by white space."""
    words = _units(first, second)
    blocks = SequenceMatcher(None, *words, autojunk=False).get_matching_blocks()
    return (
        _marked(words[0], [(block.a, block.a + block.size) for block in blocks]),
        _marked(words[1], [(block.b, block.b + block.size) for block in blocks]),
    )


def _units(first: str, second: str) -> tuple[list[str], list[str]]:
    """Returns the words of two texts, or each text as one unit if that many words would take too long to compare."""
    words = first.split(), second.split()
    counts = Counter(words[1])
    # `SequenceMatcher` may go over the first text and all pairs of equal words for each block that it finds.
    steps = (len(words[0]) + sum(counts[word] for word in words[0])) * min(map(len, words))
    return ([" ".join(words[0])], [" ".join(words[1])]) if steps > MOST_STEPS else words


def _marked(words: Sequence[str], common: Sequence[tuple[int, int]]) -> Marked:
    """Splits words into segments: the ranges in `common`, in order, unmarked, and the marked ranges between them."""
    pieces, done = [], 0
    for start, end in common:
        pieces += [(" ".join(words[done:start]), True), (" ".join(words[start:end]), False)]
        done = end
    return [piece for piece in pieces if piece[0]]


def merged_changes(old: str, new: str) -> list[tuple[str, str]]:
    """Returns the changes from `old` to `new`: segments in order, each with `same`, `removed` or `added`."""
    words = _units(old, new)
    pieces = []
    for _, start, end, new_start, new_end in SequenceMatcher(None, *words, autojunk=False).get_opcodes():
        before, after = " ".join(words[0][start:end]), " ".join(words[1][new_start:new_end])
        pieces += [(before, "same")] if before == after else [(before, "removed"), (after, "added")]
    return [piece for piece in pieces if piece[0]]


def history_json(evaluations: Sequence[DevOutputs], most: int) -> dict[str, Any]:
    """Returns for each sentence the outputs that differ from the previous one, the newest first.

    Only evaluations on the same sentences as the last one are used.

    Args:
        evaluations: evaluations of one problem, oldest first.
        most: how many outputs of a sentence to return, the newest ones.

    Returns:
        `steps` of the evaluations; `sentences`, each with `source`, which may be null, `reference`, `outputs` and
        `earlier`, the number of omitted older outputs. An output has its `first` and `last` step, its chrF, and the
        `words` removed from and added to the previous output.
    """
    own = [one for one in evaluations if one.sentences == evaluations[-1].sentences]
    if not own:
        return {"steps": [], "sentences": []}
    sources = own[-1].sources or [None] * len(own[-1].references)
    return {
        "steps": [one.step for one in own],
        "sentences": [
            {"source": source, "reference": reference, **_versions(own, index, most)}
            for index, (source, reference) in enumerate(zip(sources, own[-1].references, strict=True))
        ],
    }


def _versions(evaluations: Sequence[DevOutputs], index: int, most: int) -> dict[str, Any]:
    spans: list[tuple[int, int, str]] = []
    for one in evaluations:
        text = one.outputs[index]
        if spans and spans[-1][2] == text:
            spans[-1] = spans[-1][0], one.step, text
        else:
            spans.append((one.step, one.step, text))
    reference = evaluations[-1].references[index]
    chrf = sacrebleu_metric("chrf", SACREBLEU_METRICS["chrf"], {})
    found = []
    for number in range(max(0, len(spans) - most), len(spans)):
        first, last, text = spans[number]
        words = merged_changes(spans[number - 1][2], text) if number else [(text, "same")] if text.strip() else []
        score = chrf.sentence_score(text, [reference]).score
        found.append({"first": first, "last": last, "chrf": score, "words": words})
    return {"outputs": found[::-1], "earlier": len(spans) - len(found)}
