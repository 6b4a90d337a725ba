"""Learning pieces: what Tensor2Tensor itself learns from small texts, and the slow description on many others."""

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t.text.subword_build import SpeltTokens, learn_pieces, pieces_at
from tests.reference import subword as reference

PANGRAM = "the quick brown fox jumps over the lazy dog"
CODED = "This is a coded sentence encoded by the SubwordTextEncoder."
CORPUS = (
    "This is a corpus of text that provides a bunch of tokens from which to build a vocabulary. It will be used when "
    "strings are encoded with a TextEncoder subclass. The encoder was coded by a coder."
)
counts_of_tokens = st.dictionaries(
    st.one_of(st.text("ab", min_size=1, max_size=9), st.text("aé中 .u\\_;1\t", min_size=1, max_size=9)),
    st.sampled_from([1, 1, 2, 5, 40]),
    min_size=1,
    max_size=15,
)


def test_the_pieces_that_tensor2tensor_learns_from_a_pangram():
    learnt = learn_pieces(Counter(PANGRAM.split(" ")), 100, 2, 10)
    expected = r"_ o u the_ r z y x w v s q p n m l k j i g f e d c b a t h \ S O E > < ; 9 8 7 6 5 4 3 2 1 0"
    assert list(learnt.pieces) == expected.split(" ")
    assert learnt.vocab_size == 47


def test_the_number_of_pieces_and_some_that_tensor2tensor_learns_from_its_own_example():
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
