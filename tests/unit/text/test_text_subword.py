"""The `subword` vocabulary: Tensor2Tensor's ids and files; tokens and their spelling; learning its pieces."""

import random
import sys
import unicodedata
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t.text.subword import SubwordEncoder
from t2t.text.subword_build import (
    ESCAPE_CHARACTERS,
    Spelling,
    SpeltTokens,
    detokenize,
    learn_pieces,
    pieces_at,
    tokenize,
    unspell,
)
from tests.reference import subword as reference

PANGRAM = "the quick brown fox jumps over the lazy dog"
CODED = "This is a coded sentence encoded by the SubwordTextEncoder."
CORPUS = (
    "This is a corpus of text that provides a bunch of tokens from which to build a vocabulary. It will be used when "
    "strings are encoded with a TextEncoder subclass. The encoder was coded by a coder."
)
ESCAPES = sorted(ESCAPE_CHARACTERS)


def built(*corpus: str) -> SubwordEncoder:
    """Builds a vocabulary as in Tensor2Tensor's tests: from words between spaces, with minimum counts of 2 to 10."""
    counts: dict[str, int] = {}
    for token in " ".join(corpus).split(" "):
        counts[token] = counts.get(token, 0) + 1
    return SubwordEncoder(["<pad>_", "<EOS>_", *learn_pieces(counts, 100, 2, 10).pieces])


ENCODER = built(PANGRAM)
RANDOM_WORDS = random.Random(3).choices(
    ["der", "Hund", "läuft", "und", "schläft,", "groß_er", "back\\slash", "中文"], k=3000
)
LEARNT = SubwordEncoder.build((" ".join(RANDOM_WORDS[at : at + 6]) for at in range(0, 3000, 6)), 60)
AWKWARD = st.sampled_from(
    ["\\", "_", "\\u", "\\\\", "\\10;", ";", " ", "  ", "\t", "\n", "\r\n", "\0", "\u2028", "\u00a0", "'", '"', "<pad>",
     "<EOS>", "<pad>_", "\ufeff", "\uffff", "\U0010ffff", "e\u0301", "der Hund", "中", "1"]
)  # fmt: skip
TEXTS = st.lists(st.one_of(AWKWARD, st.text())).map("".join)


def test_ids_of_tensor2tensor():
    expected = "5 13 4 20 25 18 2 26 6 3 10 15 2 22 3 9 2 19 4 16"
    assert " ".join(map(str, ENCODER.encode(PANGRAM))).startswith(expected)

    expected = "40 31 3 38 4 9 24 29 6 33 39 13 6 54 22 19 27 36 41 2 12"
    assert " ".join(map(str, built(CORPUS, CODED).encode(CODED))) == expected


@given(TEXTS)
def test_pieces_are_the_longest_from_left_to_right(text):
    pieces = [LEARNT.piece(token_id) for token_id in range(LEARNT.vocab_size)]
    alphabet = set().union(*pieces)
    spelt = [reference.spell(token, alphabet) for token in reference.tokens_of(text)]
    cut = [piece for token in spelt for piece in reference.cut(token, pieces)]
    assert [pieces[i] for i in LEARNT.encode(text)] == cut


def test_decoding_stops_at_the_end_and_skips_padding():
    ids = ENCODER.encode("the dog")
    assert ENCODER.decode([0, *ids, 0, 1, *ids]) == "the dog"
    assert ENCODER.decode([]) == ""
    assert ENCODER.encode("") == []
    cached = SubwordEncoder([LEARNT.piece(i) for i in range(LEARNT.vocab_size)], cached_tokens=5)
    for number in range(20):
        assert cached.decode(cached.encode(f"{number} {'x' * 100}")) == f"{number} {'x' * 100}"
        assert len(cached._cache) <= 5


def test_a_character_outside_the_alphabet_or_that_is_no_piece_itself_is_spelt_by_its_number():
    """In Tensor2Tensor the second is an error; texts that can be cut have its ids."""
    encoder = SubwordEncoder(["<pad>_", "<EOS>_", "\\2", *ESCAPES])
    assert [encoder.piece(i) for i in encoder.encode("é")] == ["\\2", "3", "3", ";", "_"]
    encoder = SubwordEncoder(["<pad>", "<EOS>", "xy_", *ESCAPES])
    assert encoder.encode("xy") == [2]
    assert [encoder.piece(i) for i in encoder.encode("x")] == [*"\\120;_"]
    assert encoder.decode(encoder.encode("xyx yx <pad>")) == "xyx yx <pad>"


def test_reserved_equal_and_empty_pieces():
    """Those of a problem's own decode as their text; of two equal ones the later is used, empty ones never."""
    encoder = SubwordEncoder(["<pad>_", "<EOS>_", "<S>_", "<E>_", *ESCAPES])
    assert encoder.decode([2]) == "<S>"
    assert encoder.decode([*encoder.encode("4"), 3]) == "4<E>"
    encoder = SubwordEncoder(["", "", "u_", "", "u_", *ESCAPES])
    assert encoder.encode("u") == [4]
    assert encoder.decode([2, 3, 4]) == "u u"


# === Files ===
def test_the_file_is_tensor2tensors():
    assert SubwordEncoder(["<pad>_", "<EOS>_", ", _", "'", *ESCAPES]).to_bytes() == (
        b"'<pad>_'\n'<EOS>_'\n', _'\n'''\n'0'\n'1'\n'2'\n'3'\n'4'\n'5'\n'6'\n'7'\n'8'\n'9'\n';'\n'\\'\n'_'\n'u'\n"
    )
    encoder = SubwordEncoder.from_bytes("\n".join(["<pad>", "<EOS>", " ", " a_", "b_ ", "'", *ESCAPES]).encode())
    assert [encoder.piece(i) for i in range(2, 6)] == ["", "a_", "b_", ""]
    assert encoder.decode(encoder.encode("b ' a")) == "b ' a"


def test_quotes_may_be_single_double_or_none_and_lines_may_end_in_any_way():
    pieces = ["<pad>", "<EOS>", "a, _", *ESCAPES]
    for quote, end in (("'", "\n"), ('"', "\n"), ("", "\n"), ("'", "\r\n"), ("", "\r\n")):
        content = "".join(f"{quote}{piece}{quote}{end}" for piece in pieces)
        for file in (content, content.removesuffix(end)):
            encoder = SubwordEncoder.from_bytes(file.encode())
            assert [encoder.piece(i) for i in range(encoder.vocab_size)] == pieces


# === Learning ===
def test_learning_reads_a_stream_once_and_says_the_size(caplog):
    caplog.set_level("INFO", "t2t")
    lines = ["der Hund läuft"] * 30 + ["die Katze schläft"] * 30
    encoder = SubwordEncoder.build(iter(lines), 44)
    assert encoder.to_bytes() == SubwordEncoder.build(reversed(lines), 44).to_bytes()
    assert [encoder.piece(i) for i in (0, 1)] == ["<pad>_", "<EOS>_"]
    assert {"Hund_", "schläft_"} <= {encoder.piece(i) for i in range(encoder.vocab_size)}
    assert f" {encoder.vocab_size} pieces for 44 " in caplog.text
    assert {record.levelname for record in caplog.records} == {"INFO"}
    SubwordEncoder.build(["ab"], 1000)  # ab_ and the characters: a b < p d > E O S \ _ u ; 0-9
    assert " 26 pieces for 1,000 " in caplog.text
    assert caplog.records[-1].levelname == "WARNING"


# === Tokens and their spelling ===
pieces_of_text = st.one_of(
    st.sampled_from([" ", "  ", "\t", "\n", "\u00a0", "\u2028", "_", "\\", "\\u", "\\10;", "a", "9", "²", "中", "."]),
    st.text(max_size=4),
)
TOKEN_TEXTS = st.lists(pieces_of_text).map("".join)


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


@given(TOKEN_TEXTS)
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


@given(TOKEN_TEXTS, st.frozensets(st.characters(), max_size=8))
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


# === Learning pieces: what Tensor2Tensor itself learns, and the slow description on many other texts ===
counts_of_tokens = st.dictionaries(
    st.one_of(st.text("ab", min_size=1, max_size=9), st.text("aé中 .u\\_;1\t", min_size=1, max_size=9)),
    st.sampled_from([1, 1, 2, 5, 40]), min_size=1, max_size=15,
)  # fmt: skip


def test_pieces_that_tensor2tensor_learns():
    """All from a pangram; from its own example their number and some."""
    learnt = learn_pieces(Counter(PANGRAM.split(" ")), 100, 2, 10)
    expected = r"_ o u the_ r z y x w v s q p n m l k j i g f e d c b a t h \ S O E > < ; 9 8 7 6 5 4 3 2 1 0"
    assert list(learnt.pieces) == expected.split(" ")
    assert learnt.vocab_size == 47
    learnt = learn_pieces(Counter(f"{CORPUS} {CODED}".split(" ")), 100, 2, 10)
    assert learnt.vocab_size == 74
    assert {"encoded_", "coded_", "coder", "TextEncoder", "by_", "This_", "of_", "is_"} <= set(learnt.pieces)


@given(counts_of_tokens, st.integers(1, 12), st.sampled_from([2, 3, 5, 200]))
@settings(max_examples=40)
def test_pieces_for_a_least_count_are_those_of_the_description(counts, min_count, longest):
    found = pieces_at(SpeltTokens(counts), min_count, longest, dense=0)  # counts by sorting
    assert found == pieces_at(SpeltTokens(counts), min_count, longest, dense=1 << 30)  # counts in tables
    assert [*reference.RESERVED, *found.pieces] == reference.pieces_at(counts, min_count, longest)
    assert max(map(len, found.pieces)) <= max(1, longest - 1)
    assert found.alphabet_size == sum(len(piece) == 1 for piece in found.pieces)


@given(counts_of_tokens, st.integers(10, 70))
@settings(max_examples=25)
def test_the_search_is_that_of_the_description(counts, size):
    found = learn_pieces(counts, size, 1, 60)
    assert [*reference.RESERVED, *found.pieces] == reference.learn(counts, size, 1, 60)


def test_a_line_break_is_no_piece():
    """The one departure: in the original it becomes a piece, and the file of the vocabulary a line longer."""
    counts = {"\n": 5, " \n ": 5, "a": 1}
    pieces = learn_pieces(counts, 40).pieces
    assert "\n" not in "".join(pieces)
    assert r"\10;_" in pieces
    assert set(reference.learn(counts, 40)) - set(pieces) == {"\n", *reference.RESERVED}


def test_sizes_fall_no_lower_than_the_alphabet_and_what_occurs_a_thousand_times():
    alphabet = {*"ab", *"<pad>", *"<EOS>", *"\\_u;0123456789"}
    assert learn_pieces({"ab": 50}, 10).vocab_size == 2 + len(alphabet)
    assert set(learn_pieces({"ab": 999}, 10).pieces) == alphabet
    assert set(learn_pieces({"ab": 1000}, 10).pieces) == {"ab_"} | alphabet


def test_a_long_token_takes_no_square_of_its_length():
    letters = np.random.default_rng(0).choice(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), 200_000)
    learnt = pieces_at(SpeltTokens({"".join(letters): 1}), 50)
    # Each of the 676 pairs occurs about 296 times, each triple about 11 times.
    assert sum(len(piece) == 2 for piece in learnt.pieces) == 676
    assert max(map(len, learnt.pieces)) == 2
