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


@pytest.mark.parametrize(("text", "tokens"), [
    ("Dude - that's so cool.", ["Dude", " - ", "that", "'", "s", "so", "cool", "."]),
    ("Łukasz est né en 1981.", ["Łukasz", "est", "né", "en", "1981", "."]),
    (" Spaces at the ends ", [" ", "Spaces", "at", "the", "ends", " "]),
    ("802.11b", ["802", ".", "11b"]),
    ("two. \nlines", ["two", ". \n", "lines"]),
    ("", []),
    (" ", [" "]),
    ("a  b", ["a", "  ", "b"]),
    ("a_b", ["a", "_", "b"]),
])  # fmt: skip
def test_known_tokens(text, tokens):
    assert tokenize(text) == tokens
    assert detokenize(tokens) == text


def test_letters_and_digits_are_those_of_the_unicode_categories():
    rarely_assigned = range(0x33000, sys.maxunicode + 1, 101)
    characters = [chr(code) for code in (*range(0x33000), *range(0xE0000, 0xE0200), *rarely_assigned)]
    in_words = [unicodedata.category(character)[0] in "LN" for character in characters]
    assert list(map(str.isalnum, characters)) == in_words
    tokens = tokenize("".join(f"a{character}\n" for character in characters))
    expected = [
        ["a" + c, "\n"] if in_word else ["a", c + "\n"] for c, in_word in zip(characters, in_words, strict=True)
    ]
    assert tokens == [token for pair in expected for token in pair]


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


@pytest.mark.parametrize(("spelt", "token"), [
    *((r"\0065;", "A"), (r"\1114111;", "\U0010ffff"), ("\\" + "0" * 5000 + "65;", "A")),
    *((rf"\{number};", "\u3013") for number in (1114112, 99999999999999999999, 55296, 57343, "9" * 5000)),
    *((r"\12", r"\12"), (r"\;", r"\;"), (r"\\\u;", r"\_;"), ("\\", "\\")),
], ids=range(12))  # fmt: skip
def test_escapes_that_only_a_model_writes(spelt, token):
    assert unspell(spelt) == token
