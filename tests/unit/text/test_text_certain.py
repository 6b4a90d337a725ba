"""Any text to ids and back, alone, in batches and while its ids are written, for every kind of vocabulary."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from t2t.specs import EOS_ID, PAD_ID
from t2t.text.byte import ByteEncoder
from t2t.text.sentencepiece import ESCAPE, PIECE_MARKER, SentencePieceEncoder
from t2t.text.subword import SubwordEncoder
from t2t.text.words import TokenEncoder, WordListEncoder

LINES = ["a b c abc", "Zwei 2 M\u00e4nner, drei \u20ac_x\\y", "12; 13;"] * 30
KINDS = {
    "byte": ByteEncoder(),
    "sentencepiece": SentencePieceEncoder.build(LINES, 300),
    "subword": SubwordEncoder.build(LINES, 60),
    "token": TokenEncoder(["a", "b"]),
    "word_list": WordListEncoder(["<pad>", "<EOS>", "a", "UNK"]),
}
kinds = pytest.mark.parametrize("encoder", KINDS.values(), ids=KINDS)


def check_certain(encoder, ids):
    """Checks that each prefix of the ids gives a prefix of the text that never gets shorter."""
    whole, before = encoder.decode(ids), ""
    whole.encode()  # raises if it is no valid text
    for count in range(len(ids) + 1):
        text = encoder.certain_text(ids[:count])
        assert whole.startswith(text)
        assert text.startswith(before)
        before = text


@kinds
@settings(max_examples=40)
@given(data=st.data())
def test_nothing_certain_is_ever_taken_back(encoder, data):
    check_certain(encoder, data.draw(st.lists(st.integers(2, encoder.vocab_size - 1), max_size=12)))


AWKWARD = st.sampled_from(
    [PIECE_MARKER, ESCAPE, ESCAPE + "0", ESCAPE + "1", "0", "1", ";", " ", "  ", "\\", "_", "\\u", "\\\\", "\\10;",
     "\t", "\n", "\r\n", "\0", "\u2585", "\u2028", "\u00a0", "'", '"', "<0x41>", "</s>", "<unk>", "<pad>", "<s>",
     "<EOS>", "<pad>_", "\ufeff", "\ufffd", "\uffff", "\U0010ffff", "e\u0301", "der Hund", "中", " the"]
)  # fmt: skip
TEXTS = st.lists(st.one_of(AWKWARD, st.text(max_size=12)), max_size=8).map("".join)


@kinds
@settings(max_examples=40)
@given(texts=st.lists(TEXTS, max_size=3))
@example(texts=[f"{ESCAPE}1{PIECE_MARKER}{ESCAPE}{ESCAPE}0", "\\u \\225; \\\\12_x _y\u20ac"])
def test_any_text_becomes_ids_and_comes_back(encoder, texts):
    ids = [encoder.encode(text) for text in texts]
    assert encoder.encode_batch(texts) == ids
    ended = encoder.encode_ended(texts)
    assert [array.tolist() for array in ended] == [[*one, EOS_ID] for one in ids]
    assert {array.dtype.name for array in ended} <= {"int32"}
    for text, one in zip(texts, ids, strict=True):
        assert not {PAD_ID, EOS_ID} & set(one)
        assert max(one, default=0) < encoder.vocab_size
        if encoder.kind in ("byte", "sentencepiece", "subword"):  # the others know only some words
            assert encoder.decode(one) == text
        check_certain(encoder, [*one, EOS_ID])
        assert encoder.certain_text([*one, EOS_ID]) == encoder.decode(one)


def test_the_escapes_of_subwords_that_have_no_end_are_held_back():
    """An incomplete escape of one-character pieces may still become any character."""
    encoder = SubwordEncoder.build(LINES, 60)
    ids = {encoder.piece(token): token for token in range(encoder.vocab_size)}
    spelt = [ids[character] for character in "a\\12;" if character in ids]
    assert [encoder.certain_text(spelt[:count]) for count in range(1, 6)] == ["a", "a", "a", "a", "a\f"]


def test_part_of_a_character_is_held_back():
    encoder = ByteEncoder()
    ids = encoder.encode("a\u20acb")
    assert [encoder.certain_text(ids[:count]) for count in range(1, 6)] == ["a", "a", "a", "a\u20ac", "a\u20acb"]
