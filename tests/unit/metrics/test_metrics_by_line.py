"""Metrics that look at each line: F1 of words, edits, labels and numbers, by hand and compared with other formulas."""

import itertools
import math
import sys

import numpy as np
import pytest
import sacrebleu
from nltk.translate.gleu_score import sentence_gleu as nltk_gleu

from t2t.metrics import compute
from t2t.metrics.text import SentenceBleu, sentence_gleu
from tests.errors import refused

REFERENCE = "a man sits on a red bench in the park"
HYPOTHESES = ["the", "a dog runs", "a man sits in the park", "a man sits on a red bench", "", REFERENCE]
YES = (["yes"] * 4 + ["no"] * 6, ["yes"] * 3 + ["no"] + ["yes"] * 2 + ["no"] * 4)
CAT = (["the cat sat on a mat", "c b a", "he runs"], ["the cat lay on the mat", "a b c", "He was running."])
LINES = (["the cat sat", "", "a b c d"], ["the cat sat down", "one", "a x c"])
RANKS = (["1", "2", "3.0"], ["0", "3", "3"])


def value(name, hypotheses, references, *language):
    return compute([name], hypotheses, references, *language)[name].value


@pytest.mark.parametrize(("name", "lines", "expected"), [
    # 3 true positives, 1 false positive, 2 false negatives, 4 true negatives.
    ("matthews", YES, (3 * 4 - 1 * 2) / math.sqrt(4 * 5 * 5 * 6)),
    ("matthews", (YES[0], [{"yes": "no", "no": "yes"}[label] for label in YES[1]]), -10 / math.sqrt(600)),
    ("matthews", (["no"] * 10, YES[1]), 0.0),
    ("matthews", (YES[1], YES[1]), 1.0),
    # Deviations -1, 0, 1 and -2, 1, 1: 3 / sqrt(2 * 6). Ranks 1, 2, 3 and 1, 2.5, 2.5: 1.5 / sqrt(2 * 1.5).
    ("pearson", RANKS, 3 / math.sqrt(12)),
    ("spearman", RANKS, 1.5 / math.sqrt(3)),
    ("pearson", (["4", "4"], ["1", "2"]), 0.0),
    ("spearman", (["4", "4"], ["1", "2"]), 0.0),
    ("spearman", (["1", "10", "100"], ["-3", "-2", "7"]), 1.0),
    ("pearson", (["1", "2"], ["5", "3"]), -1.0),
    ("pearson", (["1e308", "-1e308", "1e308"], ["2", "1", "2"]), 1.0),  # overflows nothing
    # Common words: the, cat, on and mat of 6 and 6; all of 3; he and run of 2 and 3.
    ("rouge_1_fscore", CAT, (4 / 6 + 1.0 + 2 * 1.0 * (2 / 3) / (1 + 2 / 3)) / 3),
    # Of five pairs on either side `the cat`; none; none: `he run` against `he wa`, `wa run`.
    ("rouge_2_fscore", CAT, (1 / 5) / 3),
    # the cat on mat; one letter; he run.
    ("rouge_l_fscore", CAT, (4 / 6 + 1 / 3 + 2 * 1.0 * (2 / 3) / (1 + 2 / 3)) / 3),
    ("rouge_l_fscore", (["", "a"], ["a b", "a"]), 0.5),
    # Words: 1 left out, 1 left out, 1 replaced and 1 put in, of 4 + 1 + 3.
    ("wer", LINES, 4 / 8),
    # Characters: " down", "one", "b" for "x" and " d".
    ("cer", LINES, (5 + 3 + 3) / (16 + 3 + 5)),
    ("wer", (["a b c"], ["a"]), 2.0),
    # `a b.` has three words: the mean with a line that shares none of its words but the full stop, 1 of 6.
    ("gleu", (["a b.", "c d."], ["a b.", "e f."]), (1 + 1 / 6) / 2),
    # Unigrams 3 of 4, bigrams 2 of 3, trigrams 1 of 2, no 4-gram of 1: smoothed to 1 / 2.
    ("sentence_bleu", (["a b c x"], ["a b c d"]), 100 * (3 / 4 * 2 / 3 * 1 / 2 * 1 / 2) ** 0.25),
    ("sentence_bleu", (["a b"], ["a b"]), 100.0),  # of the n-grams that it has
])  # fmt: skip
def test_by_hand(name, lines, expected):
    assert value(name, *lines) == pytest.approx(expected)


# === Labels and numbers ===
def test_matthews_of_many_classes_is_the_correlation_of_their_indicators():
    """Gorodkin's definition: the covariance of one-hot rows, summed over classes, by their spreads."""
    one, other = np.random.default_rng(1).integers(4, size=(2, 50))
    ours, theirs = (np.eye(4)[labels] - np.eye(4)[labels].mean(axis=0) for labels in (one, other))
    expected = (ours * theirs).sum() / math.sqrt((ours**2).sum() * (theirs**2).sum())
    assert value("matthews", list(map(str, one)), list(map(str, other))) == pytest.approx(expected)


def test_f1_is_of_the_class_in_its_name_and_pearson_is_numpys():
    for label in ("equivalent", "duplicate"):
        name, no = f"f1_{label}", f"not_{label}"
        # 2 of 3 found are right, of 4 wanted: precision 2/3, recall 1/2.
        assert value(name, [label] * 3 + [no] * 3, [label, label, no, label, label, no]) == pytest.approx(4 / 7)
        assert value(name, [no], [no]) == 0.0
    one, other = np.random.default_rng(2).normal(size=(2, 30))
    found = value("pearson", [repr(float(x)) for x in one], [repr(float(x)) for x in other])
    assert found == pytest.approx(np.corrcoef(one, other)[0, 1])


@pytest.mark.parametrize("name", ["pearson", "spearman"])
@pytest.mark.parametrize("line", ["", "x", "nan", "1e999", "1,5"])
def test_what_is_no_number_tells_nothing(name, line):
    # Deviations -1, 0 (no number), 1 and -1, 0, 1: a missing prediction counts as the mean.
    found = compute([name], ["1", line, "3"], ["4", "5", "6"])[name]
    assert found.value == pytest.approx(1.0)
    assert found.detail == {"hypotheses_without_number": 1, "references_without_number": 0}
    assert value(name, [line], [line]) == 0.0


# === Edits ===
def closest(one, other):
    """Returns the edit distance by its definition, by exhaustive search."""
    reached, steps = {one}, 0
    while other not in reached:
        shorter = {s[:i] + s[i + 1 :] for s in reached for i in range(len(s))}
        replaced = {s[:i] + c + s[i + 1 :] for s in reached for i in range(len(s)) for c in "ab"}
        longer = {s[:i] + c + s[i:] for s in reached if len(s) < 4 for i in range(len(s) + 1) for c in "ab"}
        reached, steps = reached | shorter | replaced | longer, steps + 1
    return steps


def edits(metric, one, other):
    return compute([metric], [one], [other])[metric].detail["edits"]


def test_edits_are_the_least_number_of_steps():
    words = ["".join(letters) for length in range(4) for letters in itertools.product("ab", repeat=length)]
    for one, other in itertools.product(words, repeat=2):
        assert edits("cer", one, other) == edits("wer", " ".join(one), " ".join(other)) == closest(one, other)
    assert edits("cer", "kitten", "sitting") == 3
    assert edits("cer", "a\ud800b\0", "ab") == 2
    assert compute(["wer"], *LINES)["wer"].detail == {"edits": 4, "reference_length": 8}
    one = [str(n % 1009) for n in range(20_000)]  # a loop over rows in Python would take many minutes
    assert edits("wer", " ".join(one), " ".join([*one[:10_000], "new", *one[10_000:-3]])) == 4


# === n-grams ===
@pytest.mark.parametrize(("hypothesis", "reference", "expected"), [
    # Of 4 + 3 + 2 + 1 n-grams, `a b c` has 3 + 2 + 1 in common with `a b c x` and with `a b c d`.
    ("abcx", "abcd", 0.6),
    # The shorter side has all of its n-grams in the other: precision 1, recall 6 of 10, and the other way round.
    ("abc", "abcd", 0.6), ("abcd", "abc", 0.6),
    # A word counts as often as both sides have it: `a a a a` has 4 + 3 + 2 + 1 n-grams, of which `a a` has 2 + 1.
    ("aaaa", "aa", 0.3),
    ("", "", 1.0), ("", "a", 0.0), ("a", "", 0.0),
])  # fmt: skip
def test_gleu_by_hand_and_nltks(hypothesis, reference, expected):
    assert sentence_gleu(list(hypothesis), list(reference)) == expected
    words = REFERENCE.split()
    for other in (*HYPOTHESES[:3], "a man sits on a red red bench"):
        assert sentence_gleu(other.split(), words) == nltk_gleu([words], other.split())


def test_bleu_of_sentences_is_sacrebleus_and_the_nearest_has_the_highest():
    scores = [SentenceBleu().score(hypothesis, REFERENCE) for hypothesis in HYPOTHESES]
    assert scores == [sacrebleu.sentence_bleu(hypothesis, [REFERENCE]).score for hypothesis in HYPOTHESES]
    score = compute(["sentence_bleu"], HYPOTHESES[1:3], [REFERENCE] * 2)["sentence_bleu"]
    assert score.value == pytest.approx(sum(scores[1:3]) / 2), "the metric is the mean over lines"
    assert "eff:yes|tok:13a|smooth:exp" in score.signature
    bleu = SentenceBleu()
    assert bleu.nearest(HYPOTHESES, REFERENCE) == 5
    assert bleu.nearest(HYPOTHESES[:5], REFERENCE) == 3
    assert bleu.nearest(["x", "y", "a man"], "z") == 0
    assert bleu.nearest(["新年好啊", "新的一年好"], "新年很好啊") == 0


def test_the_language_chooses_how_words_are_split():
    assert SentenceBleu("zh").score("新年好", "新年好啊") > SentenceBleu().score("新年好", "新年好啊")
    score = compute(["gleu"], ["新年好"], ["新年好啊"], "zh")["gleu"]
    assert (score.value, score.signature) == (0.6, "tok:zh")


def test_without_its_package_rouge_says_what_to_install(monkeypatch):
    assert "stem:yes|version:rouge-score." in str(compute(["rouge_1_fscore"], *CAT)["rouge_1_fscore"])
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    monkeypatch.delitem(sys.modules, "t2t.metrics.rouge", raising=False)
    with refused("ROUGE", "rouge_score", "t2t-keras[rouge]"):
        __import__("t2t.metrics.rouge")
