"""Vocabularies in a TensorFlow graph give the same ids and texts as the encoders, for any text."""

import functools
import io
import random
from collections import Counter

import pytest
import sentencepiece
import tensorflow as tf

from t2t.files.lines import clean_line
from t2t.formats.parity import FLOAT32, PROMISES, ParityError
from t2t.formats.saved_model.vocabularies import VOCABULARIES, cleaned, graph_vocabulary, is_blank
from t2t.formats.saved_model.write import prove_decoding
from t2t.registry.overrides import is_of_plugin
from t2t.text.byte import ByteEncoder
from t2t.text.encoder import LanguageCodes, learned_classes
from t2t.text.imported import PieceTableEncoder, pieces_of_model
from t2t.text.sentencepiece import SentencePieceEncoder
from t2t.text.subword import SubwordEncoder
from t2t.text.subword_build import ESCAPE_CHARACTERS
from t2t.text.words import TokenEncoder, WordListEncoder
from tests.errors import refused
from tests.letters import WORDS as LETTERS
from tests.letters import letters, translator_of

WORDS = ["der", "Hund", "läuft", "über", "die", "Straße", "_x_", "a\\b", "42", "№", "﹏", "中文字", "...", " "]
ODD = (
    "abc XYZ 019 _\\;u", "äöüß€", "\t\n\r\x0b\x1c\x85\u2003\u3000", "中文\u2581\u241b01", "😀𝟘\U0001f1e9",
    "\u0301²\u0661", "\ufffd\u200b",
)  # fmt: skip


def random_texts():
    rng = random.Random(0)
    odd = ["".join(rng.choice(rng.choice(ODD)) for _ in range(rng.randint(0, 30))) for _ in range(120)]
    plain = [" ".join(rng.choices(WORDS, k=rng.randint(1, 9))) for _ in range(60)]
    return ["", " ", "  a ", "\t", "a  b", " \u2581a\u241b1", *plain, *odd]


TEXTS = random_texts()
PARTS_WITHOUT_SINGLES = ["ab", "abc_", "Hund_", "u", "n", "d", "xyx", "y", "über_", ". ", ", _", "H2", "xa"]
"""Pieces with characters that are not pieces themselves; if a token cannot be cut, they are escaped by code point."""


TAGGED = [
    ">>de<< der Hund", ">>de<<>>de<< Hund", " >>de<<", ">>fr<< die", ">>x\ny<<42", ">> der", "<extra_id_1>",
    "der <extra_id_0> Hund<extra_id_2><extra_id_1>  über", "<extra_id_3> 42", "</s> <pad><unk>", "elsewhere ≠",
]  # fmt: skip
"""Texts with pieces that piece tables add to those of SentencePiece."""


@functools.cache
def encoders():
    lines = TEXTS[6:66]
    escapes = sorted(ESCAPE_CHARACTERS)
    return {
        "byte": ByteEncoder(),
        "token": TokenEncoder(["der", "Hund", "läuft", "42"]),
        "word list": WordListEncoder(["<pad>", "<EOS>", "der", "Hund", "Hund", "UNK"]),
        "subword": SubwordEncoder.build(lines, 200),
        "subword of odd pieces": SubwordEncoder(["<pad>_", "<EOS>_", *escapes, *PARTS_WITHOUT_SINGLES, "", "ab"]),
        "sentencepiece": SentencePieceEncoder.build(lines, 330),
        "sentencepiece with tags": SentencePieceEncoder.build(lines, 330, ["Hund", "über"]).reserving((3, 4)),
        "words with a tag": TokenEncoder(["der", "Hund", "42"]).reserving((4,)),
        "list with a tag": WordListEncoder(["<pad>", "<EOS>", "der", "Hund", "UNK"]).reserving((3,)),
        "piece table with a tag": piece_table([], sentinels=True).reserving((9,)),
        "piece table of Marian": piece_table([">>de<<", "≠", "elsewhere", "\u2581elsewhere"]),
        "piece table of T5": piece_table([f"<extra_id_{n}>" for n in (2, 1, 0)], sentinels=True),
        "piece table without sentinels": piece_table([], sentinels=True),
        "piece table with languages": piece_table([">>de<<", "\u2581der"], languages=("≠", "\u2581Hund")),
    }


def piece_table(added, sentinels=False, languages=()):
    """A piece table over a SentencePiece model with usual normalisation: without its last piece, with added ones."""
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS[6:66]), model_writer=content, vocab_size=60, hard_vocab_limit=False,
        minloglevel=2, pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
    )  # fmt: skip
    pieces, _ = pieces_of_model(content.getvalue())
    added = [piece for piece in (*added, *languages) if piece not in pieces[:-1]]
    table = [*pieces[:-1], *added]
    codes = LanguageCodes({piece: table.index(piece) for piece in languages}) if languages else None
    return PieceTableEncoder(content.getvalue(), table, sentinels, languages=codes)


@pytest.fixture(scope="module", params=encoders().items(), ids=lambda item: item[0])
def pair(request):
    encoder = request.param[1]
    return encoder, graph_vocabulary(encoder)


def test_every_kind_of_text_has_its_operations():
    kinds = {kind for kind, encoder in learned_classes().items() if not is_of_plugin(encoder)}
    assert VOCABULARIES.keys() == {*kinds, PieceTableEncoder.kind}


def test_ids_are_those_of_the_encoder(pair):
    encoder, in_graph = pair
    texts = [*TEXTS, "xyxyx xx H2H ab", "abab", *TAGGED]
    assert tf.function(in_graph.encode)(tf.constant(texts)).to_list() == [encoder.encode(text) for text in texts]


@pytest.mark.parametrize("texts", [[], [""], ["", "", " "]])
def test_batches_without_ids(pair, texts):
    encoder, in_graph = pair
    assert in_graph.encode(tf.constant(texts, tf.string)).to_list() == [encoder.encode(text) for text in texts]


def test_texts_are_those_of_the_encoder_whatever_a_model_writes(pair):
    encoder, in_graph = pair
    rng = random.Random(1)
    rows = [[rng.randrange(2, encoder.vocab_size) for _ in range(rng.randint(0, 15))] for _ in range(300)]
    rows += [encoder.encode(text) for text in TEXTS]
    ragged = tf.ragged.constant(rows, tf.int32, ragged_rank=1)
    found = [text.decode() for text in tf.function(in_graph.decode)(ragged).numpy()]
    assert found == [encoder.decode(row) for row in rows]


def test_vocabularies_that_are_loaded_into_one_process_stay_apart(tmp_path):
    """TensorFlow keeps a SentencePiece model by the name of its operation."""
    others = SentencePieceEncoder.build(["ein anderer Text", "von anderen Leuten"], 300)
    every = encoders()
    found = [every["sentencepiece"], TokenEncoder(["a", "b"]), others, every["token"], every["piece table of Marian"]]
    for number, start in enumerate((0, len(found) // 2)):
        module = tf.Module()
        module.vocabularies = [graph_vocabulary(encoder) for encoder in found[start:] + found[:start]]
        texts = tf.RaggedTensorSpec([None, None], tf.int32)
        decode = [tf.function(one.decode, input_signature=[texts]) for one in module.vocabularies]
        module.decode = decode
        tf.saved_model.save(module, str(tmp_path / str(number)))
    loaded = [tf.saved_model.load(str(tmp_path / name)) for name in "01"]
    for module, start in zip(loaded, (0, len(found) // 2), strict=True):
        for encoder, decode in zip(found[start:] + found[:start], module.decode, strict=True):
            ids = list(range(2, encoder.vocab_size))
            (text,) = decode(tf.ragged.constant([ids], tf.int32, ragged_rank=1)).numpy()
            assert text.decode() == encoder.decode(ids)


def test_another_target_vocabulary_is_found_out_whatever_the_run_writes():
    translator, other = translator_of(letters(), num_hidden_layers=1), graph_vocabulary(TokenEncoder("hgfedcba"))
    with refused("texts", by=ParityError):
        prove_decoding(translator, other.decode, 3, PROMISES[FLOAT32])
    parity = prove_decoding(translator, graph_vocabulary(LETTERS).decode, 3, PROMISES[FLOAT32])
    assert (parity.identical, parity.inputs) == (3, 3)


def test_numbers_of_characters_that_are_none():
    """Beyond Unicode, half a surrogate pair, leading zeros, NUL; the same as in `unspell`."""
    encoder = SubwordEncoder(["<pad>_", "<EOS>_", *sorted(ESCAPE_CHARACTERS), "a"])
    spelt = [r"\1114112;_", r"\55296;_", r"\0000000000065;_", r"\0;_", r"\99999999999999999999;a_", r"\12_", r"\u\\\_"]
    rows = [[encoder._ids[character] for character in one] for one in spelt]
    found = graph_vocabulary(encoder).decode(tf.ragged.constant(rows, tf.int32, ragged_rank=1))
    assert [text.decode() for text in found.numpy()] == [encoder.decode(row) for row in rows]


def test_texts_are_cleaned_as_lines_of_files_are():
    rng = random.Random(2)
    raw = [bytes(rng.randrange(256) for _ in range(rng.randint(0, 12))) for _ in range(1500)]
    raw += [("ä€😀" * 3).encode()[:end] for end in range(27)] + [b"a\0b\0\0", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]
    found = [text.decode() for text in cleaned(tf.constant(raw)).numpy()]
    assert found == [clean_line(one, Counter()) for one in raw]


def test_blank_texts_are_those_that_strip_to_nothing():
    texts = [*TEXTS, "\u3000\u2003", "\x1c\x85", "\u200b"]
    assert is_blank(tf.constant(texts)).numpy().tolist() == [not text.strip() for text in texts]


def test_a_word_that_a_complete_list_lacks_stops_the_graph():
    in_graph = graph_vocabulary(WordListEncoder(["<pad>", "<EOS>", "der"]))
    assert in_graph.encode(tf.constant(["der der"])).to_list() == [[2, 2]]
    with refused("UNK", by=tf.errors.InvalidArgumentError):
        in_graph.encode(tf.constant(["der Hund"]))


def test_a_piece_with_a_nul_is_refused():
    encoder = SubwordEncoder(["<pad>_", "<EOS>_", *sorted(ESCAPE_CHARACTERS), "a\0"])
    with refused("NUL"):
        graph_vocabulary(encoder)


def test_a_kind_without_operations_is_refused():
    class Table(ByteEncoder):
        kind = "table"

    with refused("--format=saved_model:", "table", "--format=ctranslate2"):
        graph_vocabulary(Table())
