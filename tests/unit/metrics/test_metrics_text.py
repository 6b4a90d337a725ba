"""Metrics of text, compared with hand calculations and with sacreBLEU called directly."""

import math
import re
import urllib.error
import urllib.request

import pytest
from sacrebleu import SACREBLEU_DIR
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.tokenizers import tokenizer_spm

from t2t import metrics
from t2t.errors import MachineError, UnknownNameError, UserError
from t2t.metrics import languages, text
from t2t.metrics.languages import bleu_tokenizer
from t2t.metrics.text import accuracy_per_sequence, bleu, chrf, chrf_plus_plus, ter

HYPOTHESES = ["The cat sat on the mat.", "Er sagte: „Hallo!“", "It costs 3.50 Euros, doesn't it?", ""]
REFERENCES = ["The cat is sitting on the mat.", "Er sagte: „Hallo Welt!“", "It costs 3.50 euros, does it not?", "Yes."]


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


@pytest.mark.parametrize(
    ("options", "signature"),
    [
        ({}, "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|"),
        ({"lowercase": True}, "nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|"),
        ({"tokenize": "intl"}, "nrefs:1|case:mixed|eff:no|tok:intl|smooth:exp|"),
        ({"tokenize": "char", "smooth_method": "floor"}, "nrefs:1|case:mixed|eff:no|tok:char|smooth:floor[0.10]|"),
    ],
)
def test_bleu_is_sacrebleus_with_its_options_and_signature(options, signature):
    score = bleu(HYPOTHESES, REFERENCES, **options)
    direct = BLEU(**options).corpus_score(HYPOTHESES, [REFERENCES])
    assert score.value == direct.score
    assert score.signature.startswith(signature)
    assert str(score) == f"{direct} | {score.signature}"
    assert str(score).startswith("BLEU = ")
    assert score.higher_is_better


CHINESE = (["猫坐在垫子上面。", "今天天气很好。"], ["猫坐在垫子上。", "今天天气真好。"])


@pytest.mark.parametrize("language", ["zh", "zh-CN", "zho_Hans", "ZH", "Chinese"])
def test_bleu_splits_chinese_by_characters(language):
    """The usual tokenizer sees a line without spaces as one word, so that nearly correct lines share no words."""
    assert bleu(*CHINESE).value == 0.0
    score = bleu(*CHINESE, language=language)
    assert score.value == BLEU(tokenize="zh").corpus_score(CHINESE[0], [CHINESE[1]]).score > 50
    assert "|tok:zh|" in score.signature
    # 7 + 6 of 15 characters, 5 + 4 of 13 pairs, 4 + 2 of 11 triples, 3 + 1 of 9 quadruples; 15 against 14 characters.
    assert score.value == pytest.approx(100 * (13 / 15 * 9 / 13 * 6 / 11 * 4 / 9) ** 0.25)


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [("", "13a"), ("de", "13a"), ("en-GB", "13a"), ("th", "char"), ("km", "char"), ("lo", "char"), ("my_MM", "char")],
)
def test_tokenizers_of_languages(language, tokenizer):
    assert bleu_tokenizer(language) == tokenizer
    assert f"|tok:{tokenizer}|" in bleu(["a b"], ["a b"], language).signature


@pytest.mark.parametrize(("language", "tokenizer"), [("ja", "ja-mecab"), ("ko", "ko-mecab")])
def test_a_tokenizer_that_is_not_installed_gives_way_to_characters(language, tokenizer, monkeypatch, caplog):
    def missing(tokenize):
        assert tokenize == tokenizer
        raise RuntimeError("requires extra dependencies")

    languages._installed.cache_clear()
    monkeypatch.setattr(languages, "BLEU", lambda tokenize: None)
    assert bleu_tokenizer(language) == tokenizer
    languages._installed.cache_clear()
    monkeypatch.setattr(languages, "BLEU", missing)
    assert [bleu_tokenizer(language), bleu_tokenizer(language)] == ["char", "char"]
    monkeypatch.undo()
    languages._installed.cache_clear()
    assert [record.getMessage() for record in caplog.records] == [
        f"BLEU splits by characters (tok:char), since the tokenizer {tokenizer} is not installed; to compare with "
        f"published scores, install sacrebleu[{language}]"
    ]


def test_a_tokenizer_that_is_asked_for_is_taken():
    assert "|tok:char|" in bleu(*CHINESE, language="zh", tokenize="char").signature


@pytest.mark.parametrize("options", [{}, {"word_order": 2}, {"lowercase": True}])
def test_chrf_is_sacrebleus(options):
    score = chrf(HYPOTHESES, REFERENCES, **options)
    assert score.value == CHRF(**options).corpus_score(HYPOTHESES, [REFERENCES]).score
    assert f"nw:{options.get('word_order', 0)}" in score.signature


def test_chrf_by_hand():
    # Characters only, no words, order 1: "abcd" and "abce" share 3 of 4 characters, precision = recall = F = 3/4.
    assert chrf(["abcd"], ["abce"], char_order=1).value == pytest.approx(75.0)


def test_exact_match_counts_every_character():
    score = accuracy_per_sequence(["a", "b ", "C", ""], ["a", "b", "c", ""])
    assert score.value == 0.5
    assert score.detail == {"equal": 2, "lines": 4}
    assert str(score) == "accuracy_per_sequence = 0.5000"


@pytest.mark.parametrize("metric", [bleu, chrf, accuracy_per_sequence])
def test_lines_must_pair_up(metric):
    name = metric.__name__
    with pytest.raises(UserError, match=f"{name} of 1 hypotheses against 2 references: each needs its own; give files"):
        metric(["a"], ["a", "b"])
    with pytest.raises(UserError, match=f"{name} of no lines: there is nothing to score; give at least one"):
        metric([], [])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lowercse": True}, r"option 'lowercse' of bleu: sacreBLEU has none of that name; did you mean lowercase"),
        (
            {"tokenize": "itnl"},
            r"tokenize 'itnl' of bleu: sacreBLEU has none of that name; did you mean intl\? it has",
        ),
        (
            {"smooth_method": "flor"},
            r"smooth_method 'flor' of bleu: .*; did you mean floor\? it has add-k, exp, floor",
        ),
    ],
)
def test_unknown_options_name_the_nearest(options, message):
    with pytest.raises(UnknownNameError, match=message):
        bleu(["a"], ["a"], **options)


def test_options_that_sacrebleu_refuses_are_told_in_one_line(monkeypatch):
    class Refuses(BLEU):
        def __init__(self, tokenize=None):
            raise RuntimeError("Japanese tokenization\nrequires extra dependencies")

    monkeypatch.setattr(text, "BLEU", Refuses)
    message = (
        r"^bleu, tokenize=ja-mecab: sacreBLEU cannot compute it: Japanese tokenization requires extra dependencies$"
    )
    with pytest.raises(UserError, match=message):
        bleu(["a"], ["a"], tokenize="ja-mecab")


def test_a_tokenizer_whose_model_cannot_be_downloaded_is_told_in_one_line(monkeypatch, tmp_path):
    def no_network(*arguments):
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(tokenizer_spm, "SACREBLEU_DIR", str(tmp_path))
    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    message = (
        f"bleu, tokenize=flores200: the tokenizer needs a model, which sacreBLEU downloads once to {SACREBLEU_DIR}/"
        f"models: <urlopen error no route to host>; fix that and run the same command again"
    )
    with pytest.raises(MachineError, match=f"^{re.escape(message)}$"):
        bleu(["a"], ["a"], tokenize="flores200")


# === chrF++ and TER ===


def test_chrf_plus_plus_is_sacrebleus_with_words():
    score, direct = chrf_plus_plus(HYPOTHESES, REFERENCES), CHRF(word_order=2)
    assert score.value == direct.corpus_score(HYPOTHESES, [REFERENCES]).score != chrf(HYPOTHESES, REFERENCES).value
    assert (score.name, score.signature) == ("chrf_plus_plus", str(direct.get_signature()))
    assert "|nw:2|" in score.signature
    assert str(score).startswith("chrF2++ = ")


def test_ter_by_hand():
    # Of 6 + 4 words: one replaced; "c d" moved as a whole, which is one edit, and one left out.
    score = ter(["the cat sat on a mat", "c d a"], ["the cat sat on the mat", "a x c d"])
    assert score.detail == {"edits": 3, "reference_length": 10}
    assert score.value == pytest.approx(30.0)
    assert not score.higher_is_better
    assert not metrics.higher_is_better("ter")


@pytest.mark.parametrize("options", [{}, {"normalized": True, "no_punct": True}, {"case_sensitive": True}])
def test_ter_is_sacrebleus_with_its_options_and_signature(options):
    score, direct = ter(HYPOTHESES, REFERENCES, **options), TER(**options)
    assert score.value == direct.corpus_score(HYPOTHESES, [REFERENCES]).score
    assert score.signature == str(direct.get_signature())
    with pytest.raises(UnknownNameError, match="option 'normalised' of ter: sacreBLEU has none of that name; did you"):
        ter(HYPOTHESES, REFERENCES, normalised=True)
