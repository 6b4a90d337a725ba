"""Pieces that two vocabularies have in common."""

from t2t.text.byte import ByteEncoder
from t2t.text.shared import shared_ids
from t2t.text.token import TokenEncoder


def test_pieces_are_paired_by_their_text():
    there, here = TokenEncoder.build(["cat dog bird"], 9), TokenEncoder.build(["dog fish cat cat"], 9)
    pairs = shared_ids(there, here).tolist()
    assert {there.piece(old) for old, _ in pairs} >= {"cat", "dog", "<pad>", "</s>"}
    assert all(there.piece(old) == here.piece(new) for old, new in pairs)
    assert {"bird", "fish"} & {there.piece(old) for old, _ in pairs} == set()


def test_a_text_that_stands_in_a_vocabulary_twice_and_other_kinds_tell_nothing(monkeypatch):
    there, here = TokenEncoder.build(["cat dog"], 9), TokenEncoder.build(["cat dog"], 9)
    monkeypatch.setattr(there, "piece", lambda token: "same")
    assert shared_ids(there, here).shape == (0, 2)
    assert shared_ids(here, ByteEncoder()).shape == (0, 2)
