import io
import random
import re
import subprocess
import sys

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t.text.sentencepiece import ESCAPE, PIECE_MARKER, SentencePieceEncoder, escape, unescape
from tests.errors import refused

WORDS = [
    "der", "ein", "eine", "Hund", "Katze", "läuft", "schläft", "groß", "und", "the", "dog", "cat", "house", "sleeps",
]  # fmt: skip


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
    [PIECE_MARKER, ESCAPE, ESCAPE + "0", ESCAPE + "1", "0", "1", " ", "  ", "\t", "\n", "\r", "\0", "\u2585", "\u2028",
     "<0x41>", "</s>", "<unk>", "<pad>", "<s>", "\ufeff", "\ufffd", "\uffff", "\U0010ffff", "e\u0301", "Hund", " the"]
)  # fmt: skip
texts = st.lists(st.one_of(awkward, st.text())).map("".join)


@given(texts, texts)
@settings(max_examples=50)
def test_escape_is_injective_and_two_regular_expressions(one, other):
    assert PIECE_MARKER not in escape(one)
    assert unescape(escape(one)) == one
    assert (escape(one) == escape(other)) == (one == other)
    by_expressions = re.sub(PIECE_MARKER, ESCAPE + "1", re.sub(ESCAPE, ESCAPE + "0", one))
    assert by_expressions == escape(one)
    for text in (escape(one), one):
        assert re.sub(ESCAPE + "0", ESCAPE, re.sub(ESCAPE + "1", PIECE_MARKER, text)) == unescape(text)


@pytest.mark.parametrize("changes", [
    {"model_type": "unigram"}, {"split_by_whitespace": False, "vocab_size": 600}, {"normalization_rule_name": "nfkc"},
])  # fmt: skip
def test_models_whose_words_hang_together_encode_whole_texts(changes):
    known = foreign(**changes)
    assert encoder.keeps_to_words
    assert not known.keeps_to_words
    for text in corpus(1, 20):
        assert known.encode_ended([text])[0].tolist() == [*known.encode(text), 1]


@pytest.mark.parametrize("known", [encoder, foreign(), foreign(model_type="unigram")], ids=["own", "bpe", "unigram"])
def test_as_many_pieces_begin_words_as_words_are_there(known):
    starts = known.word_starts()
    for text in [*corpus(1, 20), "der \U0001f415 \u4e2d\u6587 \u00a0x", f"{PIECE_MARKER}a {PIECE_MARKER}"]:
        assert "".join(starts[number] for number in [*known.encode(text), 1, 0]).count("1") == text.count(" ") + 1


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, None), ({"add_dummy_prefix": False}, None), ({"model_type": "unigram"}, None),
        ({"normalization_rule_name": "nfkc"}, "\ufb01"), ({"normalization_rule_name": "nfkc_cf"}, "Ein Haus"),
        ({"normalization_rule_tsv": "rules"}, "Hund"), ({"denormalization_rule_tsv": "rules"}, "Hund"),
    ],
)  # fmt: skip
def test_a_vocabulary_is_lossless_only_if_its_model_replaces_no_characters(changes, text, tmp_path):
    (tmp_path / "rules").write_text("48 75\t68 75\n")  # Hu -> hu, in code points
    rules = {name: str(tmp_path / value) for name, value in changes.items() if name.endswith("tsv")}
    known = foreign(**changes | rules)
    assert (known.lossless, known.normalizes) == (text is None, text is not None)
    assert known.count_changed(["der und", text or "Ein \ufb01 Hund"]) == (text is not None)


@given(st.lists(texts, min_size=1, max_size=20), st.sampled_from([1, 9, 60]))
@settings(max_examples=8)
def test_a_vocabulary_is_the_same_however_lines_are_joined(lines, most):
    lines = [*lines, "the dog", *lines, "the cat\r\n"]
    one, other = (SentencePieceEncoder.build(lines, 330, joined_characters=length) for length in (0, most))
    assert one.to_bytes() == other.to_bytes()


def test_frequent_words_are_pieces_and_strangers_are_bytes():
    pieces = [encoder.piece(i) for i in encoder.encode("the Hund 中")]
    assert pieces == ["▁the", "▁Hund", "▁", "<0xE4>", "<0xB8>", "<0xAD>"]
    assert [encoder.piece(i) for i in (0, 1, 2, 3, 258)] == ["<pad>", "</s>", "<unk>", "<0x00>", "<0xFF>"]
    ids = encoder.encode("the dog")
    assert encoder.decode([*ids, 0, 1, *ids]) == "the dog"
    assert encoder.decode([]) == ""
    assert encoder.decode([3 + 0xE4]) == "\ufffd"  # a byte that begins a character and stands alone


def test_the_size_asked_for_is_the_size_and_two_builds_give_the_same_bytes(caplog):
    built = [SentencePieceEncoder.build(lines, 345) for lines in (iter(corpus(0)), corpus(0), corpus(2))]
    assert [one.vocab_size for one in built] == [345] * 3
    assert built[0].to_bytes() == built[1].to_bytes() != built[2].to_bytes()
    assert not caplog.records


def test_the_nearest_size_is_said(caplog):
    """ "ab" with the marker of its start has the characters ▁, a, b; longer pieces of it are ▁a, ab and ▁ab."""
    for asked, size in ((8192, 259 + 3 + 3), (100, 259 + 3), (260, 259 + 3)):
        caplog.clear()
        assert SentencePieceEncoder.build(["ab"] * 5, asked).vocab_size == size
        [said] = caplog.messages
        assert f" {asked} " in said
        assert f" {size}," in said


def test_vocabularies_that_do_not_mark_where_words_begin_say_so():
    for changes in ({"split_by_whitespace": False, "vocab_size": 600}, {"add_dummy_prefix": False}):
        assert foreign(**changes).word_starts() == ""


def test_long_lines_are_learnt_from():
    for rare in ("x" * 70_000, "xyz " * 40_000, "\u4e2d" * 30_000):
        learnt = SentencePieceEncoder.build([rare, "a b c"], 8192)
        assert len(learnt.encode(rare[:8])) < 8


def test_spaces_and_characters_that_the_trainer_reserves_come_back_and_do_not_cost_the_line():
    learnt = SentencePieceEncoder.build(["\u4f60\u597d\u4e16\u754c" * 3000] * 4, 280)  # with next to no spaces
    assert learnt.decode(learnt.encode(" \u4f60  \u597d a ")) == " \u4f60  \u597d a "
    for reserved in ("\0", "\u2585"):
        learnt = SentencePieceEncoder.build([f"wort{reserved}wort"] * 5, 300)
        assert [learnt.piece(i) for i in learnt.encode("wort")] == ["▁wort"]
        assert learnt.decode(learnt.encode(f"wort{reserved}wort")) == f"wort{reserved}wort"


@pytest.mark.parametrize("literal", ["<0x41>", "</s>", "<unk>", "<pad>", "a\tb", "a\nb", PIECE_MARKER, ESCAPE, " "])
def test_a_corpus_of_special_text_is_learnt_and_comes_back(literal):
    learnt = SentencePieceEncoder.build([literal, f"x {literal} y"] * 20, 300)
    for text in (literal, f"x {literal}{literal}  y"):
        assert learnt.decode(learnt.encode(text)) == text
        assert min(learnt.encode(text)) >= 3


@pytest.mark.parametrize(("changes", "names"), [
    ({"pad_id": -1, "eos_id": 2, "unk_id": 0, "bos_id": 1}, "(-1, 2, 0); (0, 1, 2);"),
    *(({name: value}, "") for name, value in (
        ("normalization_rule_name", "nmt_nfkc"), ("remove_extra_whitespaces", True), ("byte_fallback", False),
    )),
])  # fmt: skip
def test_models_of_another_make_are_refused(changes, names):
    with refused("sentencepiece", *names.split()):
        foreign(**changes)


def test_building_writes_nothing_to_the_terminal_and_nothing_heavy_is_imported():
    code = (
        "import sys, t2t.text.subword\n"
        "from t2t.text.sentencepiece import SentencePieceEncoder as E\n"
        "e = E.build(['hello world'] * 9, 270); E.build(['ab'] * 9, 262)\n"
        "e.decode(e.encode('hello'))\n"
        "assert not {'tensorflow', 'keras', 'jax'} & sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""
