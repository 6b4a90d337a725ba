"""Error rates of speech recognition: words or characters to be changed, by the distance of Levenshtein 1966."""

from collections.abc import Sequence

from t2t.metrics.base import Score, check_lines, lower_is_better, register_metric


@register_metric("wer")
@lower_is_better
def word_error_rate(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Words put in, left out or replaced, over all lines, as a fraction of the references' words; may be above 1."""
    return _error_rate("wer", [line.split() for line in hypotheses], [line.split() for line in references])


@register_metric("cer")
@lower_is_better
def character_error_rate(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Characters put in, left out or replaced, over all lines, as a fraction of the references' characters."""
    return _error_rate("cer", hypotheses, references)


def _error_rate(name: str, hypotheses: Sequence[Sequence], references: Sequence[Sequence]) -> Score:
    check_lines(name, hypotheses, references)
    edits = sum(edit_distance(one, other) for one, other in zip(hypotheses, references, strict=True))
    length = sum(map(len, references))
    detail = {"edits": edits, "reference_length": length}
    return Score(name, edits / max(1, length), higher_is_better=False, detail=detail)


def edit_distance(one: Sequence, other: Sequence) -> int:
    """Returns the least number of items to put in, leave out or replace that makes one sequence the other."""
    costs = list(range(len(other) + 1))
    for row, item in enumerate(one, 1):
        diagonal, costs[0] = costs[0], row
        for column, wanted in enumerate(other, 1):
            best = min(diagonal + (item != wanted), costs[column] + 1, costs[column - 1] + 1)
            diagonal, costs[column] = costs[column], best
    return costs[-1]
