import io
import logging
import pickle
import random
import re
import subprocess
import sys

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t.errors import UserError
from t2t.text.sentencepiece import ESCAPE, PIECE_MARKER, SentencePieceEncoder, escape, unescape

WORDS = [
    "der",
    "ein",
    "eine",
    "Hund",
    "Katze",
    "läuft",
    "schläft",
    "groß",
    "und",
    "the",
    "dog",
    "cat",
    "house",
    "sleeps",
]


def corpus(seed: int, count: int = 300) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(3, 9))) + "." for _ in range(count)]


encoder = SentencePieceEncoder.build(corpus(0), 360)

FOREIGN = {
    "model_type": "bpe", "vocab_size": 320, "hard_vocab_limit": False, "byte_fallback": True,
    "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1,
    "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
}  # fmt: skip
"""Training options of models from elsewhere that can be used here."""


def foreign(**changes):
    """Returns a vocabulary that another trainer made."""
    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus(0)), model_writer=made, minloglevel=2, **(FOREIGN | changes)
    )
    return SentencePieceEncoder(made.getvalue())


awkward = st.sampled_from(
    [
        PIECE_MARKER,
        ESCAPE,
        ESCAPE + "0",
        ESCAPE + "1",
        "0",
        "1",
        " ",
        "  ",
        "\t",
        "\n",
        "\r",
        "\0",
        "\u2585",
        "\u2028",
        "<0x41>",
        "</s>",
        "<unk>",
        "<pad>",
        "<s>",
        "\ufeff",
        "\ufffd",
        "\uffff",
        "\U0010ffff",
        "e\u0301",
        "Hund",
        " the",
    ]
)
texts = st.lists(st.one_of(awkward, st.text())).map("".join)


@given(texts)
def test_decode_undoes_encode_on_any_text(text):
    ids = encoder.encode(text)
    assert encoder.decode(ids) == text
    assert min(ids, default=3) >= 3  # neither padding, end of sequence nor unknown
    assert max(ids, default=3) < encoder.vocab_size


@given(texts, texts)
def test_escape_is_injective_and_two_regular_expressions(one, other):
    assert PIECE_MARKER not in escape(one)
    assert unescape(escape(one)) == one
    assert (escape(one) == escape(other)) == (one == other)
    by_expressions = re.sub(PIECE_MARKER, ESCAPE + "1", re.sub(ESCAPE, ESCAPE + "0", one))
    assert by_expressions == escape(one)
    for text in (escape(one), one):
        assert re.sub(ESCAPE + "0", ESCAPE, re.sub(ESCAPE + "1", PIECE_MARKER, text)) == unescape(text)


@given(st.lists(texts))
def test_batch_is_one_by_one(many):
    assert encoder.encode_batch(many) == [encoder.encode(text) for text in many]


@given(st.lists(texts))
def test_ids_for_training_are_those_of_one_by_one_and_an_end(many):
    assert encoder.keeps_to_words  # else they would be no other computation
    ended = encoder.encode_ended(many)
    assert [array.tolist() for array in ended] == [[*encoder.encode(text), 1] for text in many]
    assert {array.dtype.name for array in ended} <= {"int32"}


@pytest.mark.parametrize(
    "changes",
    [{"model_type": "unigram"}, {"split_by_whitespace": False, "vocab_size": 600}, {"normalization_rule_name": "nfkc"}],
)
def test_models_whose_words_hang_together_encode_whole_texts(changes):
    known = foreign(**changes)
    assert not known.keeps_to_words
    for text in corpus(1, 20):
        assert known.encode_ended([text])[0].tolist() == [*known.encode(text), 1]


@pytest.mark.parametrize("known", [encoder, foreign(), foreign(model_type="unigram")], ids=["own", "bpe", "unigram"])
def test_as_many_pieces_begin_words_as_words_are_there(known):
    starts = known.word_starts()
    for text in [*corpus(1, 20), "der \U0001f415 \u4e2d\u6587 \u00a0x", f"{PIECE_MARKER}a {PIECE_MARKER}"]:
        assert "".join(starts[number] for number in [*known.encode(text), 1, 0]).count("1") == text.count(" ") + 1


@pytest.mark.parametrize(
    "changes",
    [{"split_by_whitespace": False, "vocab_size": 600}, {"add_dummy_prefix": False}],
    ids=["pieces of several words", "no space in front of the text"],
)
def test_vocabularies_that_do_not_mark_where_words_begin_say_so(changes):
    assert foreign(**changes).word_starts() == ""


@given(st.lists(texts, min_size=1), st.sampled_from([1, 9, 60]))
@settings(max_examples=30, deadline=None)
def test_a_vocabulary_is_the_same_however_lines_are_joined(lines, most):
    learnt = []
    for length in (0, most):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("t2t.text.sentencepiece._JOINED_CHARACTERS", length)
            learnt.append(SentencePieceEncoder.build([*lines, "the dog", *lines, "the cat\r\n"], 330).to_bytes())
    assert learnt[0] == learnt[1]


def test_frequent_words_are_pieces_and_strangers_are_bytes():
    pieces = [encoder.piece(i) for i in encoder.encode("the Hund 中")]
    assert pieces == ["▁the", "▁Hund", "▁", "<0xE4>", "<0xB8>", "<0xAD>"]
    assert [encoder.piece(i) for i in (0, 1, 2, 3, 258)] == ["<pad>", "</s>", "<unk>", "<0x00>", "<0xFF>"]


def test_decode_takes_what_a_model_writes():
    ids = encoder.encode("the dog")
    assert encoder.decode([*ids, 0, 1, *ids]) == "the dog"
    assert encoder.decode([]) == ""
    assert encoder.decode([3 + 0xE4]) == "\ufffd"  # a byte that begins a character and stands alone


def test_the_size_asked_for_is_the_size(caplog):
    with caplog.at_level(logging.INFO, logger="t2t"):
        assert SentencePieceEncoder.build(corpus(0), 345).vocab_size == 345
    assert not caplog.records


@pytest.mark.parametrize(
    ("asked", "what", "size"),
    [
        # "ab" with the marker of its start has the characters ▁, a, b; longer pieces of it are ▁a, ab and ▁ab.
        (8192, "no more than", 259 + 3 + 3),
        (100, "no less than", 259 + 3),
        (260, "no less than", 259 + 3),
    ],
)
def test_the_nearest_size_is_said(caplog, asked, what, size):
    with caplog.at_level(logging.INFO, logger="t2t"):
        assert SentencePieceEncoder.build(["ab"] * 5, asked).vocab_size == size
    [record] = caplog.records
    assert record.getMessage() == (
        f"vocabulary of {asked} pieces asked for; the text allows {what} {size}, which is used"
    )


def test_two_builds_give_the_same_bytes():
    assert (
        SentencePieceEncoder.build(iter(corpus(1)), 400).to_bytes()
        == SentencePieceEncoder.build(corpus(1), 400).to_bytes()
    )
    assert (
        SentencePieceEncoder.build(corpus(1), 400).fingerprint != SentencePieceEncoder.build(corpus(2), 400).fingerprint
    )


def test_long_lines_are_learnt_from():
    for rare in ("x" * 70_000, "xyz " * 40_000, "\u4e2d" * 30_000):
        learnt = SentencePieceEncoder.build([rare, "a b c"], 8192)
        assert len(learnt.encode(rare[:8])) < 8


def test_spaces_come_back_where_the_corpus_has_next_to_none():
    learnt = SentencePieceEncoder.build(["\u4f60\u597d\u4e16\u754c" * 3000] * 4, 280)
    assert learnt.decode(learnt.encode(" \u4f60  \u597d a ")) == " \u4f60  \u597d a "


@pytest.mark.parametrize("reserved", ["\0", "\u2585"])
def test_characters_that_the_trainer_reserves_do_not_cost_the_line(reserved):
    learnt = SentencePieceEncoder.build([f"wort{reserved}wort"] * 5, 300)
    assert [learnt.piece(i) for i in learnt.encode("wort")] == ["▁wort"]
    assert learnt.decode(learnt.encode(f"wort{reserved}wort")) == f"wort{reserved}wort"


@pytest.mark.parametrize("literal", ["<0x41>", "</s>", "<unk>", "<pad>", "a\tb", "a\nb", PIECE_MARKER, ESCAPE, " "])
def test_a_corpus_of_special_text_is_learnt_and_comes_back(literal):
    learnt = SentencePieceEncoder.build([literal, f"x {literal} y"] * 20, 300)
    for text in (literal, f"x {literal}{literal}  y"):
        assert learnt.decode(learnt.encode(text)) == text
        assert min(learnt.encode(text)) >= 3


@pytest.mark.parametrize("lines", [[], ["", ""]])
def test_empty_corpus(lines):
    with pytest.raises(UserError, match="the training text is empty; check the corpus"):
        SentencePieceEncoder.build(lines, 300)


def test_file_and_process_boundaries(tmp_path):
    encoder.save(tmp_path / "vocab.spm")
    for again in (SentencePieceEncoder.load(tmp_path / "vocab.spm"), pickle.loads(pickle.dumps(encoder))):
        assert again.fingerprint == encoder.fingerprint
        assert again.encode("der Hund ▁ schläft") == encoder.encode("der Hund ▁ schläft")


@pytest.mark.parametrize("content", [b"", b"abc", encoder.to_bytes()[:-1], encoder.to_bytes()[:1000]])
def test_damaged_files_are_refused(content):
    with pytest.raises(UserError, match=f"the file of {len(content):,} bytes is damaged or no SentencePiece model"):
        SentencePieceEncoder.from_bytes(content)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pad_id": -1, "eos_id": 2, "unk_id": 0, "bos_id": 1}, r"have ids \(-1, 2, 0\); they must have \(0, 1, 2\)"),
        ({"normalization_rule_name": "nmt_nfkc"}, "the model changes text"),
        ({"remove_extra_whitespaces": True}, "the model changes text"),
        ({"byte_fallback": False}, "cannot write all of it"),
    ],
)
def test_models_of_another_make_are_refused(tmp_path, changes, message):
    prefix = str(tmp_path / "foreign")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus(0)), model_prefix=prefix, minloglevel=2, **(FOREIGN | changes)
    )
    with pytest.raises(UserError, match=message):
        SentencePieceEncoder.load(prefix + ".model")


def test_building_writes_nothing_to_the_terminal():
    code = (
        "from t2t.text.sentencepiece import SentencePieceEncoder as E\n"
        "e = E.build(['hello world'] * 9, 270); E.build(['ab'] * 9, 262)\n"
        "e.decode(e.encode('hello'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""
