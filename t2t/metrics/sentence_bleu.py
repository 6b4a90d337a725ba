"""BLEU of single sentences, to tell which of several outputs is nearest to a reference."""

from collections.abc import Sequence

from sacrebleu.metrics import BLEU

from t2t.metrics.languages import bleu_tokenizer


class SentenceBleu:
    """Smoothed BLEU of one sentence, from 0 to 100, as sacreBLEU computes it (Post 2018, arXiv:1804.08771).

    Exponential smoothing, and of a sentence of fewer than four words, n-grams of as many words as it has
    (`effective_order`).

    Args:
        language: of the texts, chooses the tokenizer, see `bleu_tokenizer`.
    """

    def __init__(self, language: str = ""):
        self._bleu = BLEU(tokenize=bleu_tokenizer(language), effective_order=True)

    def score(self, hypothesis: str, reference: str) -> float:
        """Returns the BLEU of a sentence."""
        return self._bleu.sentence_score(hypothesis, [reference]).score

    def nearest(self, hypotheses: Sequence[str], reference: str) -> int:
        """Returns the number of the hypothesis with the highest BLEU; of several, the first."""
        return max(range(len(hypotheses)), key=lambda k: (self.score(hypotheses[k], reference), -k))
