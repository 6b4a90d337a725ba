r"""Tokens and their spelling: Tensor2Tensor's own examples, and the inverse on any text."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t.text.subword_tokens import ESCAPE_CHARACTERS, Spelling, detokenize, tokenize, unspell
from tests.reference import subword as reference

pieces_of_text = st.one_of(
    st.sampled_from([" ", "  ", "\t", "\n", "\u00a0", "\u2028", "_", "\\", "\\u", "\\10;", "a", "9", "²", "中", "."]),
    st.text(max_size=4),
)
texts = st.lists(pieces_of_text).map("".join)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Dude - that's so cool.", ["Dude", " - ", "that", "'", "s", "so", "cool", "."]),
        ("Łukasz est né en 1981.", ["Łukasz", "est", "né", "en", "1981", "."]),
        (" Spaces at the ends ", [" ", "Spaces", "at", "the", "ends", " "]),
        ("802.11b", ["802", ".", "11b"]),
        ("two. \nlines", ["two", ". \n", "lines"]),
        ("", []),
        (" ", [" "]),
        ("a  b", ["a", "  ", "b"]),
        ("a_b", ["a", "_", "b"]),
    ],
)
def test_known_tokens(text, tokens):
    assert tokenize(text) == tokens
    assert detokenize(tokens) == text


def test_letters_and_digits_are_those_of_the_unicode_categories():
    for code in range(sys.maxunicode + 1):
        word = unicodedata.category(chr(code))[0] in "LN"
        assert (len(tokenize("a" + chr(code))) == 1) == word, hex(code)
        assert chr(code).isalnum() == word, hex(code)


@given(texts)
def test_tokens_come_back_as_the_text_and_are_those_of_the_description(text):
    tokens = tokenize(text)
    assert tokens == reference.tokens_of(text)
    assert detokenize(tokens) == text


def test_known_spelling():
    spelling = Spelling({*"abcdefghijklmnopqrstuvwxyz .\n"} | ESCAPE_CHARACTERS)
    token, spelt = "Foo! Bar.\nunder_score back\\slash", r"\70;oo\33; \66;ar.\10;under\uscore back\\slash_"
    assert spelling.spell(token) == spelt
    assert unspell(spelt) == token
    assert r"\84;" in spelling.spell("This has UPPER CASE letters")


@given(texts, st.frozensets(st.characters(), max_size=8))
def test_spelling_can_be_undone_and_ends_with_its_only_underscore(token, alphabet):
    alphabet |= ESCAPE_CHARACTERS
    spelt = Spelling(alphabet).spell(token)
    assert spelt == reference.spell(token, alphabet)
    assert spelt.index("_") == len(spelt) - 1
    assert set(spelt) <= alphabet
    assert unspell(spelt) == unspell(spelt[:-1]) == token


@pytest.mark.parametrize(
    ("spelt", "token"),
    [
        (r"\0065;", "A"),
        (r"\1114112;", "\u3013"),
        (r"\99999999999999999999;", "\u3013"),
        (r"\55296;", "\u3013"),
        (r"\57343;", "\u3013"),
        (r"\1114111;", "\U0010ffff"),
        (r"\12", r"\12"),
        (r"\;", r"\;"),
        (r"\\\u;", r"\_;"),
        ("\\", "\\"),
    ],
)
def test_escapes_that_only_a_model_writes(spelt, token):
    assert unspell(spelt) == token


def test_five_thousand_digits_are_no_character():
    assert unspell("\\" + "9" * 5000 + ";") == "\u3013"
    assert unspell("\\" + "0" * 5000 + "65;") == "A"
