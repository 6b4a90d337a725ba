"""BLEU of single sentences: how near each of several outputs is to a reference."""

from collections.abc import Sequence

from sacrebleu.metrics import BLEU

from t2t.metrics.base import Score, check_lines
from t2t.metrics.languages import bleu_tokenizer
from t2t.registry import register_metric


@register_metric("sentence_bleu")
def sentence_bleu(hypotheses: Sequence[str], references: Sequence[str], language: str = "") -> Score:
    """Smoothed BLEU of sentences, mean over lines, from 0 to 100; see `SentenceBleu`."""
    check_lines("sentence_bleu", hypotheses, references)
    bleu = SentenceBleu(language)
    total = sum(bleu.score(*pair) for pair in zip(hypotheses, references, strict=True))
    return Score("sentence_bleu", total / len(references), bleu.signature)


class SentenceBleu:
    """Smoothed BLEU of one sentence, from 0 to 100, as sacreBLEU computes it (Post 2018, arXiv:1804.08771).

    It has exponential smoothing; for a sentence of fewer than four words, n-grams are at most as long as the sentence
    (`effective_order`).

    Args:
        language: of the texts, chooses the tokenizer, see `bleu_tokenizer`.
    """

    def __init__(self, language: str = ""):
        self._bleu = BLEU(tokenize=bleu_tokenizer(language), effective_order=True)

    def score(self, hypothesis: str, reference: str) -> float:
        """Returns the BLEU of a sentence."""
        return self._bleu.sentence_score(hypothesis, [reference]).score

    @property
    def signature(self) -> str:
        """How scores are computed, in sacreBLEU's notation."""
        return str(self._bleu.get_signature())

    def nearest(self, hypotheses: Sequence[str], reference: str) -> int:
        """Returns the index of the hypothesis with the highest BLEU; ties: the first."""
        return max(range(len(hypotheses)), key=lambda k: (self.score(hypotheses[k], reference), -k))
