"""ROUGE of summaries: Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries", by the package rouge-score.

Its tokens are lower-case Latin letters and digits, stemmed by Porter's rules, as in papers on English news; text in
other alphabets has no tokens.
"""

from collections.abc import Sequence
from importlib.metadata import version

from t2t.errors import needs_extra
from t2t.metrics.base import Score, check_lines
from t2t.registry import register_metric

with needs_extra("rouge", "ROUGE"):  # raised when the metric is looked up, not at the first evaluation
    from rouge_score.rouge_scorer import RougeScorer


@register_metric("rouge_1_fscore")
def rouge_1(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """ROUGE-1: F1 of the words of output and reference, mean over lines, from 0 to 1."""
    return _rouge("rouge_1_fscore", "rouge1", hypotheses, references)


@register_metric("rouge_2_fscore")
def rouge_2(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """ROUGE-2: F1 of the pairs of neighbouring words, mean over lines, from 0 to 1."""
    return _rouge("rouge_2_fscore", "rouge2", hypotheses, references)


@register_metric("rouge_l_fscore")
def rouge_l(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """ROUGE-L: F1 by the longest common subsequence of words, mean over lines, from 0 to 1."""
    return _rouge("rouge_l_fscore", "rougeL", hypotheses, references)


def _rouge(name: str, kind: str, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    check_lines(name, hypotheses, references)
    scorer = RougeScorer([kind], use_stemmer=True)
    pairs = zip(references, hypotheses, strict=True)
    mean = sum(scorer.score(*pair)[kind].fmeasure for pair in pairs) / len(references)
    return Score(name, mean, f"kind:{kind}|stem:yes|version:rouge-score.{version('rouge-score')}")
