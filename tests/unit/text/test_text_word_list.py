"""Tensor2Tensor's lists of words."""

import pytest

from t2t.text.word_list import WordListEncoder
from tests.errors import refused


def test_the_number_of_a_line_is_the_id(tmp_path):
    (tmp_path / "vocab.txt").write_text("<pad>\n<EOS>\nb\nä@@ \nUNK\n", encoding="utf-8")
    encoder = WordListEncoder.load(tmp_path / "vocab.txt")
    assert encoder.vocab_size == 5
    assert encoder.encode(" b  ä@@ zzz b ") == [2, 3, 4, 2]
    assert encoder.decode([2, 3, 0, 4, 1, 2]) == "b ä@@ UNK"
    assert encoder.piece(3) == "ä@@"
    assert encoder.to_bytes() == "<pad>\n<EOS>\nb\nä@@\nUNK\n".encode()


def test_of_a_word_listed_twice_the_later_id_is_used():
    assert WordListEncoder(["<pad>", "<EOS>", "a", "b", "a"]).encode("a b") == [4, 3]


@pytest.mark.parametrize("unknown", ["UNK", "<UNK>", "<unk>"])
def test_unknown_words_are_the_lists_own(unknown):
    assert WordListEncoder(["<pad>", "<EOS>", unknown, "a"]).encode("x a") == [2, 3]


def test_reserved_words_in_a_text_are_unknown_and_do_not_end_it():
    encoder = WordListEncoder(["<pad>", "<EOS>", "a", "UNK"])
    assert encoder.encode("a <EOS> <pad> a") == [2, 3, 3, 2]
    assert encoder.decode(encoder.encode("a <EOS> a")) == "a UNK a"
    for word in ("<EOS>", "x"):  # where the list has no name for unknown words
        with refused(repr(word), "UNK"):
            WordListEncoder(["<pad>", "<EOS>", "a"]).encode(f"a {word}")


def test_the_most_frequent_words_are_kept():
    lines = ["b b a <EOS> UNK", "c b a d"]
    assert WordListEncoder.build(lines, 6).to_bytes().decode().split() == ["<pad>", "<EOS>", "b", "a", "c", "UNK"]
    assert WordListEncoder.build(reversed(lines), 6).fingerprint == WordListEncoder.build(lines, 6).fingerprint
