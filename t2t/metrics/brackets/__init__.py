"""Scores of parse trees as EVALB computes them: labelled bracketing, exact match, crossing brackets, tags.

A hypothesis and its reference are a tree in Penn brackets each, `(TOP (S (NP (DT A) (NN dog)) (VP (VBZ runs))))`, over
the same words. PARSEVAL: Black et al. 1991, "A procedure for quantitatively comparing the syntactic coverage of English
grammars"; in the form of S. Sekine and M. Collins, EVALB, 1997, with the settings of Collins 1997 unless others are
given. As in EVALB, sentences that are in error (brackets or words do not fit) or skipped (no words) count in no other
figure; each score says how many there are.
"""

import dataclasses
import functools
import hashlib
import math
from collections.abc import Sequence

from t2t.features.treebank_trees import Malformed, ParseTree, Part, parse_tree, write_tree
from t2t.metrics.base import Score, check_lines, lower_is_better
from t2t.metrics.brackets.compare import Totals, compare
from t2t.metrics.brackets.parameters import BUILT_IN, COLLINS, NEW, Parameters, get_parameters, read_parameters
from t2t.metrics.brackets.report import ReportLine, TooManyErrorsError, evalb_report
from t2t.registry import register_metric

_LOWER_IS_BETTER = ("bracket_crossing", "bracket_errors")


@register_metric
def bracket_f1(hypotheses: Sequence[str], references: Sequence[str], parameters: Parameters = COLLINS) -> Score:
    """Harmonic mean of labelled bracketing precision and recall, from 0 to 100; 0 where EVALB has no number.

    Both sides are bracketed trees, one per line; `parameters` say which labels count and which are alike.

    Raises:
        UserError: no lines, or unequal numbers of lines.
    """
    return _score("bracket_f1", "f1", hypotheses, references, parameters)


@register_metric
def bracket_f1_gold_tags(
    hypotheses: Sequence[str], references: Sequence[str], parameters: Parameters = COLLINS
) -> Score:
    """`bracket_f1` with the gold tags on the hypotheses' words, so that no wrong tag makes a sentence an error."""
    check_lines("bracket_f1_gold_tags", hypotheses, references)
    retagged = [with_gold_tags(*pair) for pair in zip(hypotheses, references, strict=True)]
    return _score("bracket_f1_gold_tags", "f1", retagged, references, parameters)


@register_metric
def bracket_precision(hypotheses: Sequence[str], references: Sequence[str], parameters: Parameters = COLLINS) -> Score:
    """Percentage of the hypotheses' brackets whose span and label are gold; arguments as `bracket_f1`."""
    return _score("bracket_precision", "precision", hypotheses, references, parameters)


@register_metric
def bracket_recall(hypotheses: Sequence[str], references: Sequence[str], parameters: Parameters = COLLINS) -> Score:
    """Percentage of the gold brackets that the hypotheses have; arguments as `bracket_f1`."""
    return _score("bracket_recall", "recall", hypotheses, references, parameters)


@register_metric
def bracket_exact_match(
    hypotheses: Sequence[str], references: Sequence[str], parameters: Parameters = COLLINS
) -> Score:
    """Percentage of sentences all of whose brackets are right; arguments as `bracket_f1`."""
    return _score("bracket_exact_match", "exact_match", hypotheses, references, parameters)


@register_metric
def bracket_tagging_accuracy(
    hypotheses: Sequence[str], references: Sequence[str], parameters: Parameters = COLLINS
) -> Score:
    """Percentage of words, punctuation left out, whose part of speech is right; arguments as `bracket_f1`."""
    return _score("bracket_tagging_accuracy", "tagging_accuracy", hypotheses, references, parameters)


@register_metric
@lower_is_better
def bracket_crossing(hypotheses: Sequence[str], references: Sequence[str], parameters: Parameters = COLLINS) -> Score:
    """Brackets of a hypothesis, on average, that cross a gold one; arguments as `bracket_f1`."""
    return _score("bracket_crossing", "average_crossing", hypotheses, references, parameters)


@register_metric
@lower_is_better
def bracket_errors(hypotheses: Sequence[str], references: Sequence[str], parameters: Parameters = COLLINS) -> Score:
    """Percentage of sentences, in error or skipped, that no other bracket figure counts; arguments as `bracket_f1`."""
    return _score("bracket_errors", "error_rate", hypotheses, references, parameters)


def bracket_totals(
    hypotheses: Sequence[str], references: Sequence[str], parameters: Parameters = COLLINS, *, name: str = "brackets"
) -> Totals:
    """Returns the sums that all figures are made of; arguments as `bracket_f1`, and the score's name for errors.

    Raises:
        UserError: no lines, or unequal numbers of lines.
    """
    check_lines(name, hypotheses, references)
    return _totals(tuple(hypotheses), tuple(references), parameters)


@functools.lru_cache(maxsize=2)  # a problem names several of the metrics, one after the other
def _totals(hypotheses: tuple[str, ...], references: tuple[str, ...], parameters: Parameters) -> Totals:
    totals = Totals()
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        comparison = compare(reference, hypothesis, parameters)
        totals.add(comparison.status, comparison.counts)
    return totals


def _score(
    name: str, figure: str, hypotheses: Sequence[str], references: Sequence[str], parameters: Parameters
) -> Score:
    """Returns a score whose value is the property `figure` of the totals."""
    totals = bracket_totals(hypotheses, references, parameters, name=name)
    value: float = getattr(totals, figure)
    if math.isnan(value):
        value = 0.0
    known = next((key for key, settings in BUILT_IN.items() if settings == parameters), "")
    settings = known or hashlib.sha256(repr(parameters).encode()).hexdigest()[:8]
    is_f1 = name.startswith("bracket_f1")
    parts = f"precision {totals.precision:.2f}, recall {totals.recall:.2f}; " if is_f1 else ""
    counts = (
        f"{totals.valid:,} of {totals.sentences:,} sentences, {totals.errors:,} in error, {totals.skipped:,} skipped"
    )
    text = f"{name} = {value:.2f} ({parts}{counts})"
    higher = name not in _LOWER_IS_BETTER
    return Score(name, value, f"evalb|prm:{settings}", higher, dataclasses.asdict(totals), text)


__all__ = [
    "BUILT_IN", "COLLINS", "NEW", "Parameters", "ReportLine", "TooManyErrorsError", "Totals", "bracket_crossing",
    "bracket_errors", "bracket_exact_match", "bracket_f1", "bracket_f1_gold_tags", "bracket_precision",
    "bracket_recall", "bracket_tagging_accuracy", "bracket_totals", "compare", "evalb_report", "get_parameters",
    "read_parameters",
]  # fmt: skip


def with_gold_tags(hypothesis: str, gold: str) -> str:
    """Returns the hypothesis with the tags of the gold tree; unchanged if the trees do not have the same words.

    Scores leave out punctuation by its tag, so that with a wrong tag the words of two trees no longer match.
    """
    found, wanted = parse_tree(hypothesis), parse_tree(gold)
    if isinstance(found, Malformed) or isinstance(wanted, Malformed) or found.words() != wanted.words():
        return hypothesis
    return write_tree(_retagged(found, [tag for tag, _ in wanted.tagged_words()]))


def _retagged(tree: ParseTree, tags: list[str]) -> ParseTree:
    rest = iter(tags)
    open_nodes: list[tuple[str, list[ParseTree | str]]] = [("", [])]
    for part, text in tree.walk():
        if part is Part.OPEN:
            open_nodes.append((text, []))
        elif part is Part.WORD:
            open_nodes[-1] = (next(rest), [text])
        else:
            label, children = open_nodes.pop()
            open_nodes[-1][1].append(ParseTree(label, tuple(children)))
    (root,) = open_nodes[0][1]
    assert isinstance(root, ParseTree), "a walk begins and ends with a node"
    return root
