"""GLEU: by hand, compared with NLTK, and its mean over sentences."""

import pytest
from nltk.translate.gleu_score import sentence_gleu as nltk_gleu

from t2t.metrics import compute
from t2t.metrics.gleu import sentence_gleu


def test_by_hand():
    """Of 4 + 3 + 2 + 1 n-grams, `a b c` has 3 + 2 + 1 in common with `a b c x` and with `a b c d`."""
    assert sentence_gleu(list("abcx"), list("abcd")) == 0.6
    # The shorter side has all of its n-grams in the other: precision 1, recall 6 of 10, and the other way round.
    assert sentence_gleu(list("abc"), list("abcd")) == sentence_gleu(list("abcd"), list("abc")) == 0.6


def test_a_word_counts_as_often_as_both_sides_have_it():
    """`a a a a` has 4 + 3 + 2 + 1 n-grams, of which `a a` has 2 + 1."""
    assert sentence_gleu(["a"] * 4, ["a"] * 2) == 0.3


def test_empty_lines():
    assert sentence_gleu([], []) == 1.0
    assert sentence_gleu([], ["a"]) == sentence_gleu(["a"], []) == 0.0


@pytest.mark.parametrize("hypothesis", ["the", "a dog runs", "a man sits in the park", "a man sits on a red red bench"])
def test_it_is_nltks(hypothesis):
    reference = "a man sits on a red bench in the park"
    assert sentence_gleu(hypothesis.split(), reference.split()) == nltk_gleu([reference.split()], hypothesis.split())


def test_the_metric_is_the_mean_of_sentences_split_as_bleu_splits_them():
    """`a b.` has three words: (1 + 6/6) / 2 with a line that shares none of its words but the full stop: 1 of 6."""
    assert compute(["gleu"], ["a b.", "c d."], ["a b.", "e f."])["gleu"].value == pytest.approx((1 + 1 / 6) / 2)
    score = compute(["gleu"], ["新年好"], ["新年好啊"], "zh")["gleu"]
    assert score.value == 0.6
    assert score.signature == "tok:zh"
