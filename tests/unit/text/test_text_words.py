"""Vocabularies that are lists of words, of Tensor2Tensor's words, bytes or classes, and what two have in common."""

import numpy as np

from t2t.features.treebank_linearisation import words_of
from t2t.registry import VOCABULARIES
from t2t.specs import UNK_ID
from t2t.text.byte import ByteEncoder
from t2t.text.encoder import learned_classes, shared_ids
from t2t.text.label import LabelEncoder, listed, warn_of_same_looks
from t2t.text.vocabulary_files import read_encoders, save_encoders
from t2t.text.words import TokenEncoder, WordIds, WordListEncoder, single_spaced, split_words
from tests.errors import refused


def test_ids_follow_the_order_of_the_words_after_unknown_and_reserved_ones():
    encoder = TokenEncoder(["b", "a", "ä"])
    assert encoder.vocab_size == 6
    assert encoder.encode(" a  ä\tb ") == [4, 5, 3]
    assert encoder.decode([4, 5, 3, 1, 3]) == "a ä b"
    encoder = TokenEncoder(["a"])
    assert encoder.encode("a x </s> <pad> <unk>") == [3, UNK_ID, UNK_ID, UNK_ID, UNK_ID]
    assert encoder.decode(encoder.encode("a x")) == "a <unk>"
    assert (encoder.piece(3), encoder.word_starts()) == ("a", "0011")
    with refused("'</s>'", 1):
        TokenEncoder(["a", "</s>"])


def test_build_keeps_the_most_frequent_and_breaks_ties_by_string():
    lines = ["c b a b", "d <unk> <unk> <unk>"]
    assert TokenEncoder.build(lines, 6).to_bytes().decode().split() == ["<pad>", "</s>", "<unk>", "b", "a", "c"]
    assert TokenEncoder.build(reversed(lines), 6).fingerprint == TokenEncoder.build(lines, 6).fingerprint
    assert TokenEncoder.build(lines, 100).vocab_size == 7
    encoder = TokenEncoder(["x", "y\u0301"])  # whose number of a line is the id
    pieces = encoder.to_bytes().decode().split("\n")
    assert [pieces.index(encoder.piece(i)) for i in range(encoder.vocab_size)] == list(range(5))


# === Tensor2Tensor's lists of words ===
def test_the_number_of_a_line_is_the_id(tmp_path):
    (tmp_path / "vocab.txt").write_text("<pad>\n<EOS>\nb\nä@@ \nUNK\n", encoding="utf-8")
    encoder = WordListEncoder.load(tmp_path / "vocab.txt")
    assert encoder.vocab_size == 5
    assert encoder.encode(" b  ä@@ zzz b ") == [2, 3, 4, 2]
    assert encoder.decode([2, 3, 0, 4, 1, 2]) == "b ä@@ UNK"
    assert encoder.piece(3) == "ä@@"
    assert encoder.to_bytes() == "<pad>\n<EOS>\nb\nä@@\nUNK\n".encode()
    assert WordListEncoder(["<pad>", "<EOS>", "a", "b", "a"]).encode("a b") == [4, 3], "the later id of a word"
    for unknown in ("UNK", "<UNK>", "<unk>"):
        assert WordListEncoder(["<pad>", "<EOS>", unknown, "a"]).encode("x a") == [2, 3]


def test_reserved_words_in_a_text_are_unknown_and_do_not_end_it_and_the_most_frequent_words_are_kept():
    encoder = WordListEncoder(["<pad>", "<EOS>", "a", "UNK"])
    assert encoder.encode("a <EOS> <pad> a") == [2, 3, 3, 2]
    assert encoder.decode(encoder.encode("a <EOS> a")) == "a UNK a"
    for word in ("<EOS>", "x"):  # where the list has no name for unknown words
        with refused(repr(word), "UNK"):
            WordListEncoder(["<pad>", "<EOS>", "a"]).encode(f"a {word}")
    lines = ["b b a <EOS> UNK", "c b a d"]
    assert WordListEncoder.build(lines, 6).to_bytes().decode().split() == ["<pad>", "<EOS>", "b", "a", "c", "UNK"]
    assert WordListEncoder.build(reversed(lines), 6).fingerprint == WordListEncoder.build(lines, 6).fingerprint


# === Bytes ===
def test_ids_of_bytes_are_tensor2tensors():
    """UTF-8 of "Ä a" is C3 84 20 61, and ids start after padding and end of sequence."""
    encoder = ByteEncoder.build((1 / 0 for _ in range(1)), 5)  # which reads nothing
    assert encoder.encode("Ä a") == [197, 134, 34, 99]
    assert encoder.vocab_size == 258
    assert encoder.decode([0, 99, 0, 100, 1, 101]) == "ab"
    assert encoder.decode([0xC3 + 2, 99]) == "\ufffda"
    pieces = {0: "<pad>", 1: "</s>", 99: "a", 34: "<0x20>", 0xC3 + 2: "<0xC3>", 257: "<0xFF>"}
    assert {token_id: encoder.piece(token_id) for token_id in pieces} == pieces


# === Classes ===
def test_a_class_is_its_place_in_the_list_and_no_id_is_reserved():
    encoder = LabelEncoder(("bad", "good", "so so"))
    assert [encoder.encode(name) for name in ("bad", "good", "so so")] == [[0], [1], [2]]
    assert (encoder.vocab_size, encoder.piece(2)) == (3, "so so")
    for one in (1, [1], np.int32(1), np.array(1), np.array([1])):
        assert encoder.decode(one) == "good"
    assert encoder.decode(0) == "bad"  # where text has padding
    assert "bad" in encoder
    assert "worse" not in encoder
    assert ["bad"] not in encoder


def test_classes_that_look_the_same_are_warned_of(caplog):
    warn_of_same_looks(["so so", "so", "soso", "so\u00a0so"])
    (said,) = caplog.messages
    assert "'so so'" in said
    assert r"'so\xa0so'" in said


def test_a_file_gives_them_back(tmp_path):
    encoder = LabelEncoder(("ü", "a b"))
    assert encoder.to_bytes() == "ü\na b\n".encode()
    records = save_encoders(tmp_path, {"targets": encoder})
    assert records["targets"].file == "vocab.targets.label.labels"
    assert read_encoders(tmp_path, records, "")["targets"].names == ("ü", "a b")
    assert "label" not in learned_classes(), "it is no vocabulary of text"
    assert VOCABULARIES.get("label") is LabelEncoder


def test_mistakes_are_named():
    for names, make in (
        (["'c'", "a,", "b;"], lambda: LabelEncoder("ab").encode("c")),
        (["'a'"], lambda: LabelEncoder("aba")),
        (["'a\\nb'"], lambda: LabelEncoder(("a\nb",))),
    ):
        with refused(*names):
            make()
    assert listed(range(12)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ..."


# === Pieces that two vocabularies have in common ===
def test_pieces_are_paired_by_their_text_unless_it_stands_there_twice_or_is_of_another_kind():
    there, here = TokenEncoder.build(["cat dog bird"], 9), TokenEncoder.build(["dog fish cat cat"], 9)
    pairs = shared_ids(there, here).tolist()
    assert {there.piece(old) for old, _ in pairs} >= {"cat", "dog", "<pad>", "</s>"}
    assert all(there.piece(old) == here.piece(new) for old, new in pairs)
    assert {"bird", "fish"} & {there.piece(old) for old, _ in pairs} == set()
    first = ["<pad>", "<EOS>"]
    there, here = WordListEncoder([*first, "cat", "cat", "dog"]), WordListEncoder([*first, "cat", "dog"])
    assert shared_ids(there, here).tolist() == [[0, 0], [1, 1], [4, 3]]
    assert shared_ids(here, ByteEncoder()).shape == (0, 2)


# === Words and spaces ===
def test_the_ids_of_a_word_are_found_once_of_no_more_words_than_the_most_and_of_no_long_ones():
    asked = []
    ids = WordIds(lambda word: asked.append(word) or [len(word), 70_000], most_words=2, longest_word=3)
    assert b"".join(map(ids.__getitem__, ["ab", "", "ab"])).hex() == "020000007011010000000000701101000200000070110100"
    assert asked == ["ab", ""]
    for word in ("a", "b", "long", "long", "c", "a"):
        assert ids[word] == ids[word]
    assert asked[2:] == ["a", "b", "long", "long", "long", "long", "c", "a"]
    assert set(ids) == {"c", "a"}


def test_words_have_one_space_between_them():
    assert single_spaced(" the  dog\truns\u00a0on \r\n.\v\f") == "the dog runs\u00a0on ."
    assert single_spaced(" \t") == single_spaced("") == ""
    assert split_words(" a\n b") == words_of(" a\n b") == ["a", "b"]
