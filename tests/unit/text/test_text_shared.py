"""Pieces that two vocabularies have in common."""

from t2t.text.byte import ByteEncoder
from t2t.text.shared import shared_ids
from t2t.text.token import TokenEncoder
from t2t.text.word_list import WordListEncoder


def test_pieces_are_paired_by_their_text():
    there, here = TokenEncoder.build(["cat dog bird"], 9), TokenEncoder.build(["dog fish cat cat"], 9)
    pairs = shared_ids(there, here).tolist()
    assert {there.piece(old) for old, _ in pairs} >= {"cat", "dog", "<pad>", "</s>"}
    assert all(there.piece(old) == here.piece(new) for old, new in pairs)
    assert {"bird", "fish"} & {there.piece(old) for old, _ in pairs} == set()


def test_a_text_that_stands_in_a_vocabulary_twice_and_other_kinds_tell_nothing():
    first = ["<pad>", "<EOS>"]
    there, here = WordListEncoder([*first, "cat", "cat", "dog"]), WordListEncoder([*first, "cat", "dog"])
    assert shared_ids(there, here).tolist() == [[0, 0], [1, 1], [4, 3]]
    assert shared_ids(here, ByteEncoder()).shape == (0, 2)
