"""Metrics of text, compared with hand calculations and with sacreBLEU called directly."""

import math
import sys
from types import SimpleNamespace

import pytest
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.tokenizers import tokenizer_spm

from t2t.errors import MachineError, UnknownNameError
from t2t.metrics import languages
from t2t.metrics.languages import bleu_tokenizer
from t2t.metrics.text import accuracy_per_sequence, bleu, chrf, chrf_plus_plus, ter
from tests.errors import refused

HYPOTHESES = ["The cat sat on the mat.", "Er sagte: „Hallo!“", "It costs 3.50 Euros, doesn't it?", ""]
REFERENCES = ["The cat is sitting on the mat.", "Er sagte: „Hallo Welt!“", "It costs 3.50 euros, does it not?", "Yes."]
CHINESE = (["猫坐在垫子上面。", "今天天气很好。"], ["猫坐在垫子上。", "今天天气真好。"])


def test_bleu_by_hand():
    # Words in the same place as in their reference: a b a | f g d. So 3 + 3 of 4 + 4 words match; of the pairs "a b",
    # "b a" and "f g", "g d" match, 4 of 6; of the triples "a b a" and "f g d", 2 of 4; of the quadruples none of 2.
    # The first order without a match counts as 1 / (2 * 2). Geometric mean: (6/8 * 4/6 * 2/4 * 1/4)^(1/4) = 1/2.
    # 8 words against 11: brevity penalty exp(1 - 11/8) = .6873. Together 34.36.
    score = bleu(["a b a c", "e f g d"], ["a b a z", "y f g d k l m"], tokenize="none")
    assert score.value == pytest.approx(100 * 0.5 * math.exp(1 - 11 / 8), abs=1e-9)
    assert score.detail["precisions"] == pytest.approx([75.0, 100 * 4 / 6, 50.0, 25.0])
    assert score.detail["brevity_penalty"] == pytest.approx(math.exp(-3 / 8))
    assert (score.detail["hypothesis_tokens"], score.detail["reference_tokens"]) == (8, 11)


def test_more_bleu_by_hand():
    # 7 of 8 words, 5 of 6 pairs, 3 of 4 triples, 1 of 2 quadruples.
    expected = 100 * (7 / 8 * 5 / 6 * 3 / 4 * 1 / 2) ** 0.25
    assert bleu(["1 2 3 4", "5 6 7 0"], ["1 2 3 4", "5 6 7 10"]).value == pytest.approx(expected)
    # A line separator inside a line is white space, not the end of the line: 5 of 7, 2 of 5, 1 of 3, 0 of 1 (-> 1/2).
    hypotheses, references = ["a b a c", "e f \u2028 d"], ["a b a z", "y f g d k l m"]
    # "b a" and "a b" match in the first line; in the second only single words do.
    expected = 100 * (5 / 7 * 2 / 5 * 1 / 3 * 1 / 2) ** 0.25 * math.exp(1 - 11 / 7)
    assert bleu(hypotheses, references, tokenize="none").value == pytest.approx(expected)
    assert bleu(["a b c d e"], ["a b c d e"]).value == pytest.approx(100.0)
    assert bleu(["1 2 3 4"], ["5 6 7 8"]).value == 0.0


@pytest.mark.parametrize(("metric", "direct", "options", "signature"), [
    (bleu, BLEU, {}, "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|"),
    (bleu, BLEU, {"lowercase": True}, "nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|"),
    (bleu, BLEU, {"tokenize": "intl"}, "nrefs:1|case:mixed|eff:no|tok:intl|smooth:exp|"),
    (bleu, BLEU, {"tokenize": "char", "smooth_method": "floor"}, "|tok:char|smooth:floor[0.10]|"),
    (chrf, CHRF, {}, "|nw:0|"), (chrf, CHRF, {"word_order": 2}, "|nw:2|"),
    (chrf, CHRF, {"lowercase": True}, "|case:lc|"), (ter, TER, {}, "|punct:yes|"),
    (ter, TER, {"normalized": True, "no_punct": True}, "|norm:yes|"),
    (ter, TER, {"case_sensitive": True}, "|case:mixed|"),
])  # fmt: skip
def test_scores_are_sacrebleus_with_its_options_and_signature(metric, direct, options, signature):
    score, direct = metric(HYPOTHESES, REFERENCES, **options), direct(**options)
    expected = direct.corpus_score(HYPOTHESES, [REFERENCES])
    assert (score.value, score.signature) == (expected.score, str(direct.get_signature()))
    assert signature in score.signature
    assert str(score) == f"{expected} | {score.signature}"
    assert score.higher_is_better == (metric is not ter)


def test_chrf_plus_plus_is_sacrebleus_with_words():
    score, direct = chrf_plus_plus(HYPOTHESES, REFERENCES), CHRF(word_order=2)
    assert score.value == direct.corpus_score(HYPOTHESES, [REFERENCES]).score != chrf(HYPOTHESES, REFERENCES).value
    assert (score.name, score.signature) == ("chrf_plus_plus", str(direct.get_signature()))
    assert str(score).startswith("chrF2++ = ")


def test_chrf_ter_and_exact_match_by_hand():
    # Characters only, no words, order 1: "abcd" and "abce" share 3 of 4 characters, precision = recall = F = 3/4.
    assert chrf(["abcd"], ["abce"], char_order=1).value == pytest.approx(75.0)
    # Of 6 + 4 words: one replaced; "c d" moved as a whole, which is one edit, and one left out.
    score = ter(["the cat sat on a mat", "c d a"], ["the cat sat on the mat", "a x c d"])
    assert score.detail == {"edits": 3, "reference_length": 10}
    assert score.value == pytest.approx(30.0)
    score = accuracy_per_sequence(["a", "b ", "C", ""], ["a", "b", "c", ""])
    assert (score.value, score.detail) == (0.5, {"equal": 2, "lines": 4}), "every character counts"
    assert str(score) == "accuracy_per_sequence = 0.5000"


# === Languages ===


@pytest.mark.parametrize("language", ["zh", "zh-CN", "zho_Hans", "ZH", "Chinese"])
def test_bleu_splits_chinese_by_characters(language):
    """The usual tokenizer sees a line without spaces as one word, so that nearly correct lines share no words."""
    assert bleu(*CHINESE).value == 0.0
    score = bleu(*CHINESE, language=language)
    assert score.value == BLEU(tokenize="zh").corpus_score(CHINESE[0], [CHINESE[1]]).score > 50
    assert "|tok:zh|" in score.signature
    # 7 + 6 of 15 characters, 5 + 4 of 13 pairs, 4 + 2 of 11 triples, 3 + 1 of 9 quadruples; 15 against 14 characters.
    assert score.value == pytest.approx(100 * (13 / 15 * 9 / 13 * 6 / 11 * 4 / 9) ** 0.25)
    assert "|tok:char|" in bleu(*CHINESE, language=language, tokenize="char").signature, "as is asked"


@pytest.mark.parametrize(("language", "tokenizer"), [
    ("", "13a"), ("de", "13a"), ("en-GB", "13a"), ("th", "char"), ("km", "char"), ("lo", "char"), ("my_MM", "char"),
])  # fmt: skip
def test_tokenizers_of_languages(language, tokenizer):
    assert bleu_tokenizer(language) == tokenizer
    assert f"|tok:{tokenizer}|" in bleu(["a b"], ["a b"], language).signature


@pytest.fixture
def package(monkeypatch):
    """Returns a function that installs a tokenizer of sacreBLEU with a class; None if its package is missing."""

    def install(language, tokenizer_class):
        languages._installed.cache_clear()
        module = SimpleNamespace(**{f"Tokenizer{language.capitalize()}Mecab": tokenizer_class})
        monkeypatch.setitem(sys.modules, f"sacrebleu.tokenizers.tokenizer_{language}_mecab", tokenizer_class and module)

    yield install
    languages._installed.cache_clear()


@pytest.mark.parametrize("language", ["ja", "ko"])
def test_a_tokenizer_that_is_not_installed_gives_way_to_characters(language, package, caplog):
    package(language, type("Tokenizer", (), {"signature": lambda self: ""}))
    assert bleu_tokenizer(language) == f"{language}-mecab"
    package(language, None)
    assert [bleu_tokenizer(language), bleu_tokenizer(language)] == ["char", "char"]
    (line,) = caplog.messages
    assert f"{language}-mecab" in line
    assert f"sacrebleu[{language}]" in line


# === Refusals ===


@pytest.mark.parametrize(("metric", "options", "about"), [
    (bleu, {"lowercse": True}, ["'lowercse'", "bleu", "lowercase"]),
    (bleu, {"tokenize": "itnl"}, ["tokenize", "'itnl'", "bleu", "intl"]),
    (bleu, {"smooth_method": "flor"}, ["smooth_method", "'flor'", "floor", "add-k", "exp"]),
    (ter, {"normalised": True}, ["'normalised'", "ter", "normalized"]),
])  # fmt: skip
def test_unknown_options_name_the_nearest(metric, options, about):
    with refused(*about, by=UnknownNameError):
        metric(["a"], ["a"], **options)


def test_options_that_sacrebleu_refuses_are_told_in_one_line(package):
    def refuse():
        raise RuntimeError("Japanese tokenization\nrequires extra dependencies")

    package("ja", refuse)
    with refused("bleu", "tokenize=ja-mecab"):
        bleu(["a"], ["a"], tokenize="ja-mecab")


def test_a_tokenizer_whose_model_cannot_be_downloaded_is_told_in_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr(tokenizer_spm, "SACREBLEU_DIR", str(tmp_path))
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody answers there
    with refused("bleu", "tokenize=flores200", by=MachineError):
        bleu(["a"], ["a"], tokenize="flores200")
