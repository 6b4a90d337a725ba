from t2t.specs.constants import UNK_ID
from t2t.text.token import TokenEncoder
from tests.errors import refused


def test_ids_follow_the_order_of_the_words():
    encoder = TokenEncoder(["b", "a", "ä"])
    assert encoder.vocab_size == 6
    assert encoder.encode(" a  ä\tb ") == [4, 5, 3]
    assert encoder.decode([4, 5, 3, 1, 3]) == "a ä b"


def test_unknown_words():
    encoder = TokenEncoder(["a"])
    assert encoder.encode("a x </s> <pad> <unk>") == [3, UNK_ID, UNK_ID, UNK_ID, UNK_ID]
    assert encoder.decode(encoder.encode("a x")) == "a <unk>"
    assert encoder.piece(3) == "a"


def test_build_keeps_the_most_frequent_and_breaks_ties_by_string():
    lines = ["c b a b", "d <unk> <unk> <unk>"]
    assert TokenEncoder.build(lines, 6).to_bytes().decode().split() == ["<pad>", "</s>", "<unk>", "b", "a", "c"]
    assert TokenEncoder.build(reversed(lines), 6).fingerprint == TokenEncoder.build(lines, 6).fingerprint
    assert TokenEncoder.build(lines, 100).vocab_size == 7


def test_line_number_is_the_id():
    encoder = TokenEncoder(["x", "y\u0301"])
    pieces = encoder.to_bytes().decode().split("\n")
    assert [pieces.index(encoder.piece(i)) for i in range(encoder.vocab_size)] == list(range(5))


def test_reserved_words_are_refused():
    with refused("'</s>'", 1):
        TokenEncoder(["a", "</s>"])


def test_words_begin_with_every_id_but_padding_and_end_of_sequence():
    assert TokenEncoder(["a", "b"]).word_starts() == "00111"
