"""BLEU of single sentences: by hand, compared with sacreBLEU's function, and the choice of outputs by it."""

import math

import pytest
import sacrebleu

from t2t.metrics import compute
from t2t.metrics.sentence_bleu import SentenceBleu

REFERENCE = "a man sits on a red bench in the park"
HYPOTHESES = ["the", "a dog runs", "a man sits in the park", "a man sits on a red bench", "", REFERENCE]


def test_by_hand():
    """Unigrams 3 of 4, bigrams 2 of 3, trigrams 1 of 2, no 4-gram of 1: smoothed to 1 / 2."""
    found = SentenceBleu().score("a b c x", "a b c d")
    assert found == pytest.approx(100 * math.exp(sum(map(math.log, (3 / 4, 2 / 3, 1 / 2, 1 / 2))) / 4))
    assert SentenceBleu().score("a b", "a b") == pytest.approx(100.0), "of the n-grams that it has"


def test_it_is_sacrebleus():
    scores = [SentenceBleu().score(hypothesis, REFERENCE) for hypothesis in HYPOTHESES]
    assert scores == [sacrebleu.sentence_bleu(hypothesis, [REFERENCE]).score for hypothesis in HYPOTHESES]
    score = compute(["sentence_bleu"], HYPOTHESES[1:3], [REFERENCE] * 2)["sentence_bleu"]
    assert score.value == pytest.approx(sum(scores[1:3]) / 2), "the metric is the mean over lines"
    assert "eff:yes|tok:13a|smooth:exp" in score.signature


def test_the_nearest_has_the_highest_score_and_of_equal_ones_the_first_is_taken():
    bleu = SentenceBleu()
    assert bleu.nearest(HYPOTHESES, REFERENCE) == 5
    assert bleu.nearest(HYPOTHESES[:5], REFERENCE) == 3
    assert bleu.nearest(["x", "y", "a man"], "z") == 0


def test_the_language_chooses_how_words_are_split():
    assert SentenceBleu().nearest(["新年好啊", "新的一年好"], "新年很好啊") == 0
    assert SentenceBleu("zh").score("新年好", "新年好啊") > SentenceBleu().score("新年好", "新年好啊")
