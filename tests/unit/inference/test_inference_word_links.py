"""From weights between tokens to links between words: by hand, and for every kind of vocabulary."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t.inference.word_links import renumber_links, replace_words, word_links, word_numbers, word_numbers_in
from t2t.specs.constants import EOS_ID
from t2t.text.byte import ByteEncoder
from t2t.text.piece_table import PieceTableEncoder, pieces_of_model
from t2t.text.sentencepiece import SentencePieceEncoder
from t2t.text.subword import SubwordEncoder
from t2t.text.token import TokenEncoder
from tests.unit.text.test_text_piece_table import model_of

LINES = ["der Hund läuft, und der Hund schläft", "the dog runs; the dog sleeps", "中文 und (kurz) gesagt"] * 30
ENCODERS = {
    "sentencepiece": SentencePieceEncoder.build(LINES, 300),
    "subword": SubwordEncoder.build(LINES, 90),
    "byte": ByteEncoder(),
}
MODEL = model_of(["la vie de l homme", "l homme est la"] * 5)
NORMALIZING = PieceTableEncoder(MODEL, ["<pad>", "</s>", "<unk>", *pieces_of_model(MODEL)[0][3:]])
"""Its model's NFKC rules write some signs as spaces."""
WORDS = st.text("abcläu中,;()1_", min_size=1, max_size=6)
SPACES = st.sampled_from([" ", "  ", "\t", "\u3000", " \u3000", "\u00a0 "])


@pytest.mark.parametrize("kind", ENCODERS)
@given(words=st.lists(WORDS, min_size=1, max_size=6), spaces=st.lists(SPACES, min_size=7, max_size=7))
def test_the_tokens_of_a_word_spell_it_whatever_the_pieces_and_spaces(kind, words, spaces):
    encoder = ENCODERS[kind]
    text = spaces[0] + "".join(word + space for word, space in zip(words, spaces[1:], strict=False))
    ids = encoder.encode(text)
    numbers = word_numbers(encoder, [*ids, EOS_ID])
    assert len(numbers) == len(ids)
    assert (np.diff(numbers) >= 0).all()
    for number, word in enumerate(words):
        assert encoder.decode([ids[place] for place in np.flatnonzero(numbers == number)]).strip() == word


def test_tokens_of_words_are_numbered_one_by_one():
    encoder = TokenEncoder(["a", "b"])
    assert word_numbers(encoder, [*encoder.encode("b a x b"), EOS_ID, 0]).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("ids", [[], [EOS_ID], [*ByteEncoder().encode(" \t "), EOS_ID]])
def test_a_text_without_words_has_no_tokens_of_words(ids):
    assert word_numbers(ByteEncoder(), ids).tolist() == []


@pytest.mark.parametrize(
    "text", ["la l\u00b4homme la", "vie\u00a8 la", "a\u200bb homme", "\u00ad la vie", "vie\u00a8", "la"]
)
def test_words_of_a_text_are_counted_where_normalization_makes_others(text):
    """Tokens of the first n words are those of the text that ends there."""
    encoder, words = NORMALIZING, text.split()
    numbers = word_numbers_in(text, encoder, encoder.encode(text))
    assert set(numbers) <= set(range(len(words)))
    for count in range(1, len(words) + 1):
        begun = encoder.encode(" ".join(words[:count]))
        assert (numbers < count).sum() == len(begun)


def test_tokens_without_a_word_of_the_text_are_left_out():
    assert word_numbers_in("", NORMALIZING, [3, 4]).tolist() == []
    cut = NORMALIZING.encode("la l\u00b4homme la")[:3]
    assert word_numbers_in("la l\u00b4homme la", NORMALIZING, cut).max() == 1


def test_weights_of_pieces_are_added_up():
    """Two words of the output, of two pieces and one, and two of the input, of one piece and two; then both ends.

    The first piece of the output looks most at the first word by itself (0.4), but both pieces together give
    0.4 + 0.1 = 0.5 to the first word and 0.2 + 0.2 + 0.3 + 0.4 = 1.1 to the second; the last looks most at the end of
    the input (0.6), which is no word, and of the words more at the first (0.3).
    """
    weights = np.array([[0.4, 0.2, 0.2, 0.2], [0.1, 0.3, 0.4, 0.2], [0.3, 0.05, 0.05, 0.6], [0.0, 0.0, 0.0, 1.0]])
    assert word_links(weights, np.array([0, 1, 1]), np.array([0, 0, 1])) == ((0, 1), (1, 0))


def test_equal_weights_are_linked_to_the_earlier_word():
    assert word_links(np.full((2, 3), 0.25), np.array([0, 1, 2]), np.array([0, 1])) == ((0, 0), (0, 1))


def test_without_words_on_a_side_there_are_no_links():
    none, one = np.zeros(0, int), np.zeros(1, int)
    assert word_links(np.ones((1, 1)), none, one) == word_links(np.ones((1, 1)), one, none) == ()


def test_a_replaced_word_is_translated_where_the_dictionary_has_it():
    text, source = "<unk> in <unk> .", "Anna wohnt in Rom ."
    assert replace_words(text, source, ((0, 0), (3, 2)), {"Rom": "Rome"}) == ["Anna", "in", "Rome", "."]
    assert replace_words(text, source, (), {"Rom": "Rome"}) == text.split()


def test_links_follow_words_that_became_several_or_none():
    links, words = ((0, 0), (1, 1), (2, 2), (3, 3)), ["New York", "b", "", "c"]
    assert renumber_links(links, words) == ((0, 0), (0, 1), (1, 2), (3, 3))
