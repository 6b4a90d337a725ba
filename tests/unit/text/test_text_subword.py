"""The `subword` vocabulary: Tensor2Tensor's ids, any text there and back, its files, its mistakes."""

import random

from hypothesis import given
from hypothesis import strategies as st

from t2t.text.subword import SubwordEncoder
from t2t.text.subword_build import learn_pieces
from t2t.text.subword_tokens import ESCAPE_CHARACTERS
from tests.reference import subword as reference

PANGRAM = "the quick brown fox jumps over the lazy dog"
ESCAPES = sorted(ESCAPE_CHARACTERS)


def built(*texts: str) -> SubwordEncoder:
    """Builds a vocabulary as in Tensor2Tensor's tests: from words between spaces, with minimum counts of 2 to 10."""
    counts: dict[str, int] = {}
    for token in " ".join(texts).split(" "):
        counts[token] = counts.get(token, 0) + 1
    return SubwordEncoder(["<pad>_", "<EOS>_", *learn_pieces(counts, 100, 2, 10).pieces])


pangram = built(PANGRAM)
words = random.Random(3).choices(["der", "Hund", "läuft", "und", "schläft,", "groß_er", "back\\slash", "中文"], k=3000)
learnt = SubwordEncoder.build((" ".join(words[at : at + 6]) for at in range(0, 3000, 6)), 60)
awkward = st.sampled_from(
    ["\\", "_", "\\u", "\\\\", "\\10;", ";", " ", "  ", "\t", "\n", "\r\n", "\0", "\u2028", "\u00a0", "'", '"', "<pad>",
     "<EOS>", "<pad>_", "\ufeff", "\uffff", "\U0010ffff", "e\u0301", "der Hund", "中", "1"]
)  # fmt: skip
texts = st.lists(st.one_of(awkward, st.text())).map("".join)


def test_ids_of_tensor2tensor():
    expected = "5 13 4 20 25 18 2 26 6 3 10 15 2 22 3 9 2 19 4 16"
    assert " ".join(map(str, pangram.encode(PANGRAM))).startswith(expected)
    coded = "This is a coded sentence encoded by the SubwordTextEncoder."
    encoder = built(
        "This is a corpus of text that provides a bunch of tokens from which to build a vocabulary. It will be used "
        "when strings are encoded with a TextEncoder subclass. The encoder was coded by a coder.", coded,
    )  # fmt: skip
    expected = "40 31 3 38 4 9 24 29 6 33 39 13 6 54 22 19 27 36 41 2 12"
    assert " ".join(map(str, encoder.encode(coded))) == expected


@given(texts)
def test_pieces_are_the_longest_from_left_to_right(text):
    pieces = [learnt.piece(token_id) for token_id in range(learnt.vocab_size)]
    alphabet = set().union(*pieces)
    spelt = [reference.spell(token, alphabet) for token in reference.tokens_of(text)]
    assert [pieces[i] for i in learnt.encode(text)] == [
        piece for token in spelt for piece in reference.cut(token, pieces)
    ]


@given(st.lists(st.integers(2, learnt.vocab_size - 1)))
def test_whatever_a_model_writes_is_valid_text(ids):
    learnt.decode(ids).encode("utf-8")


def test_decoding_stops_at_the_end_and_skips_padding():
    ids = pangram.encode("the dog")
    assert pangram.decode([0, *ids, 0, 1, *ids]) == "the dog"
    assert pangram.decode([]) == ""
    assert pangram.encode("") == []


def test_reserved_pieces_of_a_problems_own_decode_as_their_text():
    encoder = SubwordEncoder(["<pad>_", "<EOS>_", "<S>_", "<E>_", *ESCAPES])
    assert encoder.decode([2]) == "<S>"
    assert encoder.decode([*encoder.encode("4"), 3]) == "4<E>"


def test_a_character_outside_the_alphabet_is_spelt_by_its_number():
    encoder = SubwordEncoder(["<pad>_", "<EOS>_", "\\2", *ESCAPES])
    assert [encoder.piece(i) for i in encoder.encode("é")] == ["\\2", "3", "3", ";", "_"]


def test_a_character_that_is_no_piece_itself_is_spelt_where_nothing_else_fits():
    """In Tensor2Tensor such a text is an error; texts that can be cut have its ids."""
    encoder = SubwordEncoder(["<pad>", "<EOS>", "xy_", *ESCAPES])
    assert encoder.encode("xy") == [2]
    assert [encoder.piece(i) for i in encoder.encode("x")] == [*"\\120;_"]
    assert encoder.decode(encoder.encode("xyx yx <pad>")) == "xyx yx <pad>"


def test_of_two_equal_pieces_the_later_one_is_used_and_empty_ones_never():
    encoder = SubwordEncoder(["", "", "u_", "", "u_", *ESCAPES])
    assert encoder.encode("u") == [4]
    assert encoder.decode([2, 3, 4]) == "u u"


# === Files ===


def test_the_file_is_tensor2tensors():
    assert SubwordEncoder(["<pad>_", "<EOS>_", ", _", "'", *ESCAPES]).to_bytes() == (
        b"'<pad>_'\n'<EOS>_'\n', _'\n'''\n'0'\n'1'\n'2'\n'3'\n'4'\n'5'\n'6'\n'7'\n'8'\n'9'\n';'\n'\\'\n'_'\n'u'\n"
    )


def test_quotes_may_be_single_double_or_none_and_lines_may_end_in_any_way():
    pieces = ["<pad>", "<EOS>", "a, _", *ESCAPES]
    for quote, end in (("'", "\n"), ('"', "\n"), ("", "\n"), ("'", "\r\n"), ("", "\r\n")):
        content = "".join(f"{quote}{piece}{quote}{end}" for piece in pieces)
        for file in (content, content.removesuffix(end)):
            encoder = SubwordEncoder.from_bytes(file.encode())
            assert [encoder.piece(i) for i in range(encoder.vocab_size)] == pieces


def test_white_space_around_a_piece_without_quotes_is_lost_as_in_the_original():
    encoder = SubwordEncoder.from_bytes("\n".join(["<pad>", "<EOS>", " ", " a_", "b_ ", "'", *ESCAPES]).encode())
    assert [encoder.piece(i) for i in range(2, 6)] == ["", "a_", "b_", ""]
    assert encoder.decode(encoder.encode("b ' a")) == "b ' a"


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


def test_a_size_that_cannot_be_met_is_a_warning(caplog):
    SubwordEncoder.build(["ab"], 1000)  # ab_ and the characters: a b < p d > E O S \ _ u ; 0-9
    assert " 26 pieces for 1,000 " in caplog.text
    assert caplog.records[-1].levelname == "WARNING"


def test_the_cache_is_bounded():
    encoder = SubwordEncoder([learnt.piece(i) for i in range(learnt.vocab_size)], cached_tokens=5)
    for number in range(20):
        assert encoder.decode(encoder.encode(f"{number} {'x' * 100}")) == f"{number} {'x' * 100}"
        assert len(encoder._cache) <= 5
