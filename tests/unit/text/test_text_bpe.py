"""Byte-pair encoding by codes: hand calculations, and subword-nmt itself where it is installed."""

import io
import random

import pytest

from t2t.registry import VOCABULARIES
from t2t.text.imported import BpeCodes, BpeEncoder
from t2t.text.vocabulary_files import read_vocabulary
from tests.errors import refused

# Sennrich et al. 2016, figure 1: the merges of low, lowest, newer and wider.
PAPER = b"#version: 0.1\nr </w>\nl o\nlo w\ne r</w>\n"
CODES = b"#version: 0.2\na a\nb c</w>\naa b\na b\n"


@pytest.mark.parametrize(("codes", "word", "pieces"), [
    (PAPER, "lower", ["low", "er"]),  # the word that the paper cuts, which was not in its text
    (PAPER, "low", ["low"]),
    (PAPER, "r", ["r"]),
    (PAPER, "x", ["x"]),
    (CODES, "aaa", ["aa", "a"]),  # joined from the left
    (CODES, "aaaab", ["aa", "aa", "b"]),  # its last letter is b</w>, of which no pair is on the list
    (CODES, "aabc", ["aa", "bc"]),  # `b c</w>` stands before `aa b`
    (CODES, "abab", ["ab", "a", "b"]),
    (b"a b</w> 7\nc d 3\n", "ab", ["ab"]),  # fastBPE's, with counts
    (b"a b\na b</w>\n", "ab", ["ab"]),  # without a version line, the end of a word is a separate piece
    (b"#version: 0.2\na b\na b</w>\n", "ab", ["ab"]),
    (b"#version: 0.2\na b\n", "ab", ["a", "b"]),
])  # fmt: skip
def test_words_are_cut_by_the_first_merges(codes, word, pieces):
    assert BpeCodes(codes).cut(word) == pieces


@pytest.mark.parametrize(("codes", "name"), [
    (b"#version: 0.3\na b\n", "0.3,"), (b"", "0.1,"), (b"a b c\n", "c'"), (b"\xff\n", "UTF-8")
])  # fmt: skip
def test_files_of_other_content_are_refused(codes, name):
    with refused("BPE", name):
        BpeCodes(codes)


PIECES = ["<pad>", "</s>", "<unk>", "low@@", "er", "low", "l@@", "</w>"]


def test_texts_become_ids_and_come_back_and_the_file_holds_codes_and_pieces(tmp_path):
    encoder = BpeEncoder(PAPER, PIECES)
    assert encoder.encode("lower  low\tlx") == [3, 4, 5, 6, 2]
    assert encoder.encode("</s>") == [2, 2, 2, 2]
    assert encoder.encode("low\u00a0low\u3000er") == [3, 2, 5, 4], "U+00A0 is part of a word, as for subword-nmt"
    assert encoder.decode([3, 4, 5, 1, 6]) == "lower low"
    assert encoder.decode([5, 3]) == encoder.certain_text([5, 3]) == "low low"
    assert encoder.decode([2]) == "<unk>"
    assert [encoder.piece(token_id) for token_id in range(encoder.vocab_size)] == PIECES
    encoder = BpeEncoder(PAPER, PIECES, separator="~")
    encoder.save(tmp_path / "codes.of.any.name")
    again = read_vocabulary(tmp_path / "codes.of.any.name")
    assert isinstance(again, BpeEncoder)
    assert (again.fingerprint, again.ids_fingerprint) == (encoder.fingerprint, encoder.ids_fingerprint)
    assert BpeEncoder(CODES, PIECES).ids_fingerprint == encoder.ids_fingerprint
    assert VOCABULARIES.get("bpe") is BpeEncoder


def test_subword_nmt_cuts_the_same():
    learn = pytest.importorskip("subword_nmt.learn_bpe")
    apply = pytest.importorskip("subword_nmt.apply_bpe")
    rng = random.Random(4)
    words = ["".join(rng.choice("abcdeé") for _ in range(rng.randint(1, 9))) for _ in range(400)]
    learnt = io.StringIO()
    learn.learn_bpe(io.StringIO(" ".join(words)), learnt, 60)
    for content in (learnt.getvalue(), learnt.getvalue().partition("\n")[2]):
        theirs, ours = apply.BPE(io.StringIO(content)), BpeCodes(content.encode())
        for word in words:
            cut = ours.cut(word)
            assert theirs.process_line(word).split() == [*(f"{piece}@@" for piece in cut[:-1]), cut[-1]]
