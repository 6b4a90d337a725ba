"""Metrics of text, compared with hand calculations and with sacreBLEU called directly; alignment error rate by hand."""

import math
import random
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest
from sacrebleu.tokenizers import tokenizer_spm

from t2t.errors import MachineError, UnknownNameError
from t2t.metrics import text
from t2t.metrics.alignment import alignment_error_rate
from t2t.metrics.paired import paired_bootstrap
from t2t.metrics.text import (
    accuracy_per_sequence,
    bleu,
    bleu_tokenizer,
    chrf,
    chrf_plus_plus,
    line_tokenizer,
    moses_bleu,
    split_compounds,
    ter,
)
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


def test_chrf_ter_and_exact_match_by_hand():
    score, direct = chrf_plus_plus(HYPOTHESES, REFERENCES), CHRF(word_order=2)
    assert score.value == direct.corpus_score(HYPOTHESES, [REFERENCES]).score != chrf(HYPOTHESES, REFERENCES).value
    assert (score.name, score.signature) == ("chrf_plus_plus", str(direct.get_signature()))
    assert str(score).startswith("chrF2++ = ")
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
        text._installed.cache_clear()
        module = SimpleNamespace(**{f"Tokenizer{language.capitalize()}Mecab": tokenizer_class})
        monkeypatch.setitem(sys.modules, f"sacrebleu.tokenizers.tokenizer_{language}_mecab", tokenizer_class and module)

    yield install
    text._installed.cache_clear()


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


def test_options_that_sacrebleu_refuses_and_a_model_that_cannot_be_downloaded_are_told_in_one_line(
    package, monkeypatch, tmp_path, no_network
):
    def refuse():
        raise RuntimeError("Japanese tokenization\nrequires extra dependencies")

    package("ja", refuse)
    with refused("bleu", "tokenize=ja-mecab"):
        bleu(["a"], ["a"], tokenize="ja-mecab")
    monkeypatch.setattr(tokenizer_spm, "SACREBLEU_DIR", str(tmp_path))
    with refused("bleu", "tokenize=flores200", by=MachineError):
        bleu(["a"], ["a"], tokenize="flores200")


# === Paired bootstrap resampling: consequences of its definition, and agreement with sacreBLEU ===
RNG = random.Random(5)
LINES = [" ".join(RNG.choices("abcdefgh", k=9)) for _ in range(60)]


def damaged(share):
    rng = random.Random(share)
    return [" ".join("x" if rng.random() < share else word for word in line.split()) for line in LINES]


SYSTEMS = [("base", damaged(0.3)), ("same", damaged(0.3)), ("good", damaged(0.1))]


def test_a_large_difference_is_significant_and_none_is_not():
    found = paired_bootstrap(SYSTEMS, LINES, {"bleu": {"tokenize": "none"}, "ter": {}}, 200)
    assert [(one.metric, one.system) for one in found] == [
        (metric, system) for metric in ("BLEU", "TER") for system in ("base", "same", "good")
    ]
    for base, same, good in (found[:3], found[3:]):
        assert base.p_value is None
        assert same.p_value == 1.0
        assert good.p_value < 0.05
        assert same.value == base.value
        assert abs(base.mean - base.value) < base.interval
    assert str(found[2]).startswith(f"good: BLEU = {found[2].value:.2f} ({found[2].mean:.2f} +- ")
    assert ", p = 0.00" in str(found[2])
    assert "* | nrefs:1|bs:200|seed:12345|case:mixed|eff:no|tok:none|" in str(found[2])
    with refused(59, 60):
        paired_bootstrap([SYSTEMS[0], ("short", LINES[1:])], LINES, {"bleu": {}})


def test_the_numbers_are_sacrebleus():
    (_, own) = paired_bootstrap(SYSTEMS[1:], LINES, {"bleu": {}})
    _, found = PairedTest(SYSTEMS[1:], {"BLEU": BLEU()}, [LINES], "bs")()
    direct = found["BLEU"][1]
    assert (own.value, own.p_value, own.mean, own.interval) == (
        direct.score, direct.p_value, direct.mean, direct.ci,
    )  # fmt: skip


# === Alignment error rate ===
LINKS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8).map(tuple)


def test_a_hand_calculation():
    """Two sentences. A = {0-0, 1-2, 2-2} and {0-1}: 4 links. S = {0-0, 1-1} and {0-1, 1-0}: 4 links, of which A has
    0-0 and 0-1. P also has 1-2 of the first, so that A has 3 of it: 1 - (2 + 3) / (4 + 4) = 3/8.
    """
    gold = [(((0, 0), (1, 1)), ((1, 2),)), (((0, 1), (1, 0)), ())]
    found = alignment_error_rate(gold, [((0, 0), (1, 2), (2, 2)), ((0, 1),)])
    assert (found.value, found.detail["precision"], found.detail["recall"]) == (0.375, 0.75, 0.5)
    assert str(found) == "AER = 0.3750, precision = 0.7500, recall = 0.5000 (4 links found, 4 sure)"
    assert not found.higher_is_better
    sure = ((0, 0),)
    nothing_found = alignment_error_rate([(sure, ())], [()])
    assert (nothing_found.value, nothing_found.detail["recall"]) == (1.0, 0.0)
    assert math.isnan(nothing_found.detail["precision"])
    assert alignment_error_rate([((), sure)], [sure]).value == 0.0
    assert alignment_error_rate([((), ())], [()]).value == 0.0


@given(st.lists(st.tuples(LINKS, LINKS, LINKS), min_size=1, max_size=4))
def test_it_is_the_definition(sentences):
    """Och and Ney 2003: 1 - (|A & S| + |A & P|) / (|A| + |S|), where P has the sure links, too; links count once."""
    sure, possible, found = ({(n, link) for n, one in enumerate(sentences) for link in one[side]} for side in range(3))
    wrong = alignment_error_rate([one[:2] for one in sentences], [one[2] for one in sentences])
    if sure or found:
        right = len(found & sure) + len(found & (sure | possible))
        assert wrong.value == pytest.approx(1 - right / (len(found) + len(sure)))


# === BLEU as in papers before sacreBLEU: published examples of its steps, and a calculation by hand ===
@pytest.mark.parametrize(("language", "line", "tokens"), [
    # the example of sacremoses' README; the ellipsis is replaced before
    ("en", "This, is a sentence with weird» symbols… appearing everywhere¿",
     "This , is a sentence with weird » symbols ... appearing everywhere ¿"),
    ("en", "don't", "don &apos;t"),
    ("fr", "l'homme", "l&apos; homme"),
    # ordinals and abbreviations keep their dots (Moses' nonbreaking_prefix.de), ends of sentences do not
    ("de", "Am 3. Mai, d.h. morgen, kam Dr. Kohl.", "Am 3. Mai , d.h. morgen , kam Dr. Kohl ."),
    # all kinds of quotation marks become the same
    ("de", "Er sagte ”ja“.", "Er sagte &quot; ja &quot; ."),
    ("de", "rich-text format", "rich ##AT##-##AT## text format"),
    ("en", "rich-text format", "rich-text format"),
])  # fmt: skip
def test_lines_as_the_tools_give_them(language, line, tokens):
    assert line_tokenizer(language)(line) == tokens


def test_a_score_of_moses_by_hand():
    """Five tokens, of which the last differs: (4/5 * 3/4 * 2/3 * 1/2)^(1/4) = 0.2^(1/4)."""
    score = moses_bleu(["ein rich-text Format"], ["ein rich-text Dokument"], "de")
    assert score.value == pytest.approx(100 * 0.2**0.25, abs=1e-6)
    assert score.signature.startswith("nrefs:1|case:mixed|eff:no|tok:moses-de+compounds-sacremoses-")
    assert "|smooth:none|" in score.signature
    score = moses_bleu(["un rich-text format"], ["un rich-text document"], "fr")
    assert score.value == pytest.approx(0.0), "without compounds there are three tokens, and no quadruple"
    assert "|tok:moses-fr-sacremoses-" in score.signature
    with refused("'german'", "as", "bn", "de", by=UnknownNameError):
        moses_bleu(["a"], ["a"], "german")
    with refused("bleu", 1, 2):
        moses_bleu(["a"], ["a", "b"])


@pytest.mark.parametrize(("line", "split"), [
    # https://nlp.stanford.edu/projects/nmt: rich-text format --> rich ##AT##-##AT## text format
    ("rich-text format", "rich ##AT##-##AT## text format"), ("a - b -c d-", "a - b -c d-"),
    ("Nord-Süd-Achse", "Nord ##AT##-##AT## Süd ##AT##-##AT## Achse"),
    # perl's s///g does not look back: the second hyphen's left neighbour is used up
    ("a-b-c", "a ##AT##-##AT## b-c"),
])  # fmt: skip
def test_compounds(line, split):
    assert split_compounds(line) == split
