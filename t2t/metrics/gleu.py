"""GLEU, which is a fair score of single sentences: Wu et al. 2016 (arXiv:1609.08144), section 5.2."""

import functools
from collections import Counter
from collections.abc import Callable, Sequence

from sacrebleu.metrics import BLEU

from t2t.metrics.base import Score, check_lines
from t2t.metrics.languages import bleu_tokenizer
from t2t.registry import register_metric

LONGEST = 4
"""Words of the longest n-grams."""


@register_metric("gleu")
def gleu(hypotheses: Sequence[str], references: Sequence[str], language: str = "") -> Score:
    """GLEU of sentences: the smaller of recall and precision of their n-grams, mean over lines, from 0 to 1.

    `language` chooses how lines are split into words, see `bleu_tokenizer`.
    """
    check_lines("gleu", hypotheses, references)
    split = _tokenizer(language)
    pairs = zip(hypotheses, references, strict=True)
    total = sum(sentence_gleu(*(split(line.rstrip()).split() for line in pair)) for pair in pairs)
    return Score("gleu", total / len(references), f"tok:{bleu_tokenizer(language)}")


def sentence_gleu(hypothesis: Sequence[str], reference: Sequence[str]) -> float:
    """Returns the GLEU of a sentence of words: equal n-grams of 1 to 4 words / those of the side that has more.

    An empty hypothesis for an empty reference has 1.
    """
    ours, theirs = (
        Counter(tuple(words[first : first + n]) for n in range(1, LONGEST + 1) for first in range(len(words) - n + 1))
        for words in (hypothesis, reference)
    )
    most = max(ours.total(), theirs.total())
    return (ours & theirs).total() / most if most else 1.0


@functools.cache
def _tokenizer(language: str) -> Callable[[str], str]:
    return BLEU(tokenize=bleu_tokenizer(language)).tokenizer
