"""Vocabularies of a SentencePiece model and a table of ids; ids are compared where models are imported."""

import io

import sentencepiece

from t2t.problems.base import nominal_spec
from t2t.problems.text_files import Text2TextFiles
from t2t.text.encoder import LanguageCodes
from t2t.text.imported import PieceTableEncoder
from t2t.text.vocabulary_files import read_vocabulary, save_encoders
from tests.errors import refused


def model_of(lines):
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=content, vocab_size=30, hard_vocab_limit=False, minloglevel=2
    )
    return content.getvalue()


MODEL = model_of(["the dog runs home", "a cat runs", "dogs and cats"] * 5)
OF_MODEL = sentencepiece.SentencePieceProcessor(model_proto=MODEL)
PIECES = ["<pad>", "</s>", "<unk>", ">>xx<<", *reversed([OF_MODEL.id_to_piece(n) for n in range(3, len(OF_MODEL))])]
OTHER = model_of(["a b c"] * 3)


def test_words_of_the_table_come_back_and_others_are_unknown():
    encoder = PieceTableEncoder(MODEL, PIECES)
    ids = encoder.encode(">>xx<< the dog")
    assert ids[0] == 3
    assert encoder.decode(ids) == ">>xx<< the dog"
    assert encoder.encode(">>yy<<")[0] == encoder.unknown_id == 2
    assert encoder.decode([2]) == "\u2047"
    other = PieceTableEncoder(OTHER, PIECES)  # of another model over the same table
    assert encoder.ids_fingerprint == other.ids_fingerprint != PieceTableEncoder(MODEL, PIECES[:-1]).ids_fingerprint
    assert encoder.fingerprint != other.fingerprint


def test_no_text_spells_a_reserved_piece():
    letters = sorted(set("<pad></s><unk>") | {"\u2581"})
    encoder = PieceTableEncoder(model_of(["".join(letters)] * 5), ["<pad>", "</s>", "<unk>", *letters])
    for text in ("<pad>", "</s>", "a </s> b"):
        assert not {0, 1} & set(encoder.encode(text))


def test_sentinels_stand_anywhere_and_are_kept_in_the_file():
    encoder = PieceTableEncoder(MODEL, [*PIECES, "<extra_id_0>"], sentinels=True)
    dog = encoder.encode("the dog")
    last = encoder.vocab_size - 1
    assert encoder.encode("<extra_id_0>the dog <extra_id_0>") == [last, *dog, last]
    assert encoder.encode("<extra_id_1>")[-1] != last
    assert encoder.encode(">>xx<< the dog")[0] != 3  # of the other kind of tag it has none
    found = PieceTableEncoder.from_bytes(encoder.to_bytes())
    assert found.encode("the dog<extra_id_0>") == [*dog, last]
    assert found.fingerprint == encoder.fingerprint != PieceTableEncoder(MODEL, [*PIECES, "<extra_id_0>"]).fingerprint


def test_codes_of_languages_are_no_text_and_no_text_spells_them():
    codes = LanguageCodes({"xx": len(PIECES), "yy": len(PIECES) + 1}, source="end", target="none")
    encoder = PieceTableEncoder(MODEL, [*PIECES, "the", "YY"], languages=codes)
    dog = encoder.encode("the dog")
    assert not {len(PIECES), len(PIECES) + 1} & set(encoder.encode("the yy_YY dog"))
    assert encoder.encode(">>yy<< dog")[0] != encoder.unknown_id  # it has no tags, so the text is cut unchanged
    assert encoder.decode([len(PIECES), *dog, len(PIECES) + 1, 1, 4]) == "the dog"
    assert encoder.certain_text([len(PIECES)]) == ""
    found = PieceTableEncoder.from_bytes(encoder.to_bytes())
    assert found.languages == codes
    assert found.fingerprint == encoder.fingerprint != PieceTableEncoder(MODEL, encoder._pieces).fingerprint
    assert PieceTableEncoder(MODEL, PIECES).languages is None
    with refused(1, 3):
        PieceTableEncoder(MODEL, PIECES, languages=LanguageCodes({"xx": 1}))


def test_each_text_feature_may_be_given_a_vocabulary(tmp_path):
    encoders = {"inputs": PieceTableEncoder(MODEL, PIECES), "targets": PieceTableEncoder(OTHER, PIECES)}
    files = [record.file for record in save_encoders(tmp_path, encoders).values()]
    assert files == [f"vocab.{name}.piece_table.pieces" for name in encoders]
    problem = Text2TextFiles(vocab_file=f"{tmp_path}/*.pieces")
    built = problem.build_encoders(None)
    assert [one.fingerprint for one in built.values()] == [one.fingerprint for one in encoders.values()]
    assert problem.with_encoders(built).spec().shared_vocabulary
    assert nominal_spec(problem) == problem.spec()
    assert problem.raw_files(tmp_path).keys() == {"vocab_file 1", "vocab_file 2"}
    renamed = tmp_path / "renamed"  # a table is known by its content, too
    renamed.write_bytes(encoders["inputs"].to_bytes())
    assert read_vocabulary(renamed).fingerprint == encoders["inputs"].fingerprint
    with refused("--vocab_file:", 3, "text2text_files", 2, "inputs,", "targets"):
        Text2TextFiles(vocab_file=",".join([f"{tmp_path}/{files[0]}"] * 3)).build_encoders(None)
