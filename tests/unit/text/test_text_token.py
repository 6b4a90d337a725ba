import pytest

from t2t.errors import UserError
from t2t.specs.constants import UNK_ID
from t2t.text.token import TokenEncoder


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


def test_file_round_trip(tmp_path):
    encoder = TokenEncoder(["zwei", "eins", "ß"])
    encoder.save(tmp_path / "words")
    again = TokenEncoder.load(tmp_path / "words")
    assert again.fingerprint == encoder.fingerprint
    assert again.encode("ß eins") == encoder.encode("ß eins")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\nb\n", "starts with 'a b"),
        (b"", "first three lines must be <pad>, </s>, <unk>"),
        (b"<pad>\n</s>\n<unk>\na\nb", "ends within the line 'b'"),
        (b"<pad>\n</s>\n<unk>\na\na\n", "'a' is listed more than once"),
        (b"<pad>\n</s>\n<unk>\na b\n", "'a b' is empty or has white space"),
        (b"<pad>\n</s>\n<unk>\n\nb\n", "'' is empty"),
        (b"<pad>\n</s>\n<unk>\n\xff\n", "not UTF-8"),
    ],
)
def test_damaged_files_are_refused(content, message):
    with pytest.raises(UserError, match=message):
        TokenEncoder.from_bytes(content)


def test_reserved_words_are_refused():
    with pytest.raises(UserError, match="'</s>' is reserved, its id is 1; leave it out"):
        TokenEncoder(["a", "</s>"])


def test_nothing_to_build_from():
    with pytest.raises(UserError, match="the training text has no word"):
        TokenEncoder.build(["", "  "], 10)
    with pytest.raises(UserError, match="ask for a size of 4 or more"):
        TokenEncoder.build(["a"], 3)


def test_words_begin_with_every_id_but_padding_and_end_of_sequence():
    assert TokenEncoder(["a", "b"]).word_starts() == "00111"
