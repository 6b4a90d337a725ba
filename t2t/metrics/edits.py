"""Error rates of speech recognition: words or characters to be changed, by the distance of Levenshtein 1966."""

from collections.abc import Sequence

from rapidfuzz.distance import Levenshtein

from t2t.metrics.base import Score, check_lines, lower_is_better
from t2t.registry import register_metric


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
    edits = sum(map(Levenshtein.distance, hypotheses, references))
    length = sum(map(len, references))
    detail = {"edits": edits, "reference_length": length}
    return Score(name, edits / max(1, length), higher_is_better=False, detail=detail)
