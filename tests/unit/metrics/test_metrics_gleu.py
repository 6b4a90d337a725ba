"""GLEU: by hand, compared with NLTK, and its mean over sentences."""

import pytest
from nltk.translate.gleu_score import sentence_gleu as nltk_gleu

from t2t.metrics import compute
from t2t.metrics.gleu import sentence_gleu


@pytest.mark.parametrize(
    ("hypothesis", "reference", "expected"),
    [
        # Of 4 + 3 + 2 + 1 n-grams, `a b c` has 3 + 2 + 1 in common with `a b c x` and with `a b c d`.
        ("abcx", "abcd", 0.6),
        # The shorter side has all of its n-grams in the other: precision 1, recall 6 of 10, and the other way round.
        ("abc", "abcd", 0.6), ("abcd", "abc", 0.6),
        # A word counts as often as both sides have it: `a a a a` has 4 + 3 + 2 + 1 n-grams, of which `a a` has 2 + 1.
        ("aaaa", "aa", 0.3),
        ("", "", 1.0), ("", "a", 0.0), ("a", "", 0.0),
    ],
)  # fmt: skip
def test_by_hand(hypothesis, reference, expected):
    assert sentence_gleu(list(hypothesis), list(reference)) == expected


@pytest.mark.parametrize("hypothesis", ["the", "a dog runs", "a man sits in the park", "a man sits on a red red bench"])
def test_it_is_nltks(hypothesis):
    reference = "a man sits on a red bench in the park"
    assert sentence_gleu(hypothesis.split(), reference.split()) == nltk_gleu([reference.split()], hypothesis.split())


def test_the_metric_is_the_mean_of_sentences_split_as_bleu_splits_them():
    """`a b.` has three words: (1 + 6/6) / 2 with a line that shares none of its words but the full stop: 1 of 6."""
    assert compute(["gleu"], ["a b.", "c d."], ["a b.", "e f."])["gleu"].value == pytest.approx((1 + 1 / 6) / 2)
    score = compute(["gleu"], ["新年好"], ["新年好啊"], "zh")["gleu"]
    assert (score.value, score.signature) == (0.6, "tok:zh")
