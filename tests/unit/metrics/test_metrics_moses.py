"""BLEU as in papers before sacreBLEU: published examples of its steps, and a calculation by hand."""

import pytest

from t2t.errors import UnknownNameError
from t2t.metrics.moses import line_tokenizer, moses_bleu, split_compounds
from tests.errors import refused


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


@pytest.mark.parametrize(("line", "split"), [
    # https://nlp.stanford.edu/projects/nmt: rich-text format --> rich ##AT##-##AT## text format
    ("rich-text format", "rich ##AT##-##AT## text format"),
    ("a - b -c d-", "a - b -c d-"),
    ("Nord-Süd-Achse", "Nord ##AT##-##AT## Süd ##AT##-##AT## Achse"),
    # perl's s///g does not look back: the second hyphen's left neighbour is used up
    ("a-b-c", "a ##AT##-##AT## b-c"),
])  # fmt: skip
def test_compounds(line, split):
    assert split_compounds(line) == split


def test_a_score_by_hand():
    """Five tokens, of which the last differs: (4/5 * 3/4 * 2/3 * 1/2)^(1/4) = 0.2^(1/4)."""
    score = moses_bleu(["ein rich-text Format"], ["ein rich-text Dokument"], "de")
    assert score.value == pytest.approx(100 * 0.2**0.25, abs=1e-6)
    assert score.signature.startswith("nrefs:1|case:mixed|eff:no|tok:moses-de+compounds-sacremoses-")
    assert "|smooth:none|" in score.signature
    score = moses_bleu(["un rich-text format"], ["un rich-text document"], "fr")
    assert score.value == pytest.approx(0.0), "without compounds there are three tokens, and no quadruple"
    assert "|tok:moses-fr-sacremoses-" in score.signature


def test_mistakes():
    with refused("'german'", "as", "bn", "de", by=UnknownNameError):
        moses_bleu(["a"], ["a"], "german")
    with refused("bleu", 1, 2):
        moses_bleu(["a"], ["a", "b"])
