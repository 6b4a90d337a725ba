"""A vocabulary file is read as what it is."""

import gzip
import pickle
import re
import subprocess

import pytest

from t2t.text.byte import ByteEncoder
from t2t.text.encoder import learned_classes
from t2t.text.imported import BpeEncoder, PieceTableEncoder
from t2t.text.label import LabelEncoder
from t2t.text.sentencepiece import SentencePieceEncoder
from t2t.text.subword import SubwordEncoder
from t2t.text.vocabulary_files import VocabularyFile, fingerprint_of, read_encoders, read_vocabulary
from t2t.text.words import TokenEncoder, WordListEncoder
from tests.errors import refused

LINES = ["one man and two dogs", "two women and one cat; 1 u _ \\"] * 20
BUILT = {kind: encoder.build(LINES, 300) for kind, encoder in learned_classes().items()}
SUBWORDS = BUILT["subword"].to_bytes()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", learned_classes())
def test_the_kind_is_seen_from_the_content_and_a_vocabulary_comes_back(kind, packed, tmp_path):
    BUILT[kind].save(tmp_path / "vocabulary")
    if packed:
        (tmp_path / "vocabulary").write_bytes(gzip.compress((tmp_path / "vocabulary").read_bytes()))
    found = [read_vocabulary(tmp_path / "vocabulary"), pickle.loads(pickle.dumps(BUILT[kind]))]
    for again in found if packed else [*found, learned_classes()[kind].load(tmp_path / "vocabulary")]:
        assert type(again) is learned_classes()[kind]
        assert (again.fingerprint, again.to_bytes()) == (BUILT[kind].fingerprint, BUILT[kind].to_bytes())
        assert again.encode("two dogs, one _") == BUILT[kind].encode("two dogs, one _")


@pytest.mark.parametrize(("content", "kind"), [
    (SUBWORDS.replace(b"'", b""), "subword"),
    (SUBWORDS.replace(b"'", b'"'), "subword"),
    (SUBWORDS.replace(b"'", b"").replace(b"<pad>_", b"<pad>").replace(b"<EOS>_", b"<EOS>"), "subword"),
    (SUBWORDS.replace(b"<pad>_", b"").replace(b"<EOS>_", b""), "subword"),
    ("\n".join(["<pad>", "<EOS>", *"\\_u;0123456789", *(f"w{n}" for n in range(100))]).encode(), "word_list"),
])  # fmt: skip
def test_files_of_tensor2tensors_versions(content, kind, tmp_path):
    (tmp_path / "vocab.txt").write_bytes(content)
    assert read_vocabulary(tmp_path / "vocab.txt").kind == kind


@pytest.mark.parametrize(("name", "content", "about"), [
    ("notes.txt", b"To be", "b'To"),
    ("empty", b"", "b'',"),
    ("v.subwords", b"the\nof\n", "subword 'the"),
    ("v.subwords.gz", b"the\nof\n", "subword 'the"),
    ("v.spm", b"the\nof\n", "sentencepiece 7"),
    ("v.model", BUILT["sentencepiece"].to_bytes()[:-9], "sentencepiece"),
    ("v.tokens", b"the\nof\n", "token 'the"),
    ("v.gz", gzip.compress(SUBWORDS)[:-9], "gzip"),
])  # fmt: skip
def test_other_files_are_named(name, content, about, tmp_path):
    (tmp_path / name).write_bytes(content)
    with refused(tmp_path / name, *about.split()):
        read_vocabulary(tmp_path / name)
    for path in (tmp_path / "absent", tmp_path):
        with refused(path):
            read_vocabulary(path)


WORDS = b"<pad>\n</s>\n<unk>\n"
PIECES = BUILT["sentencepiece"].to_bytes()


@pytest.mark.parametrize(("kind", "content", "names"), [
    *((BpeEncoder, content, "BPE") for content in (b'{"bpe_pieces": [1]}\n', b'{"bpe_pieces": ["a", "b", "b"]}\n')),
    (BpeEncoder, b'{"bpe_pieces": ["a", "b", "c", "c"], "separator": "@@"}\n', "BPE 4 3"),
    (ByteEncoder, b"abc", "3 'bytes:"),
    (LabelEncoder, b"a\nb", "'b';"),
    (LabelEncoder, b"\xff\n", "UTF-8"),
    *((PieceTableEncoder, content, "table") for content in (b'{"pieces": ["a"', b'{"pieces": [1]}\n')),
    (PieceTableEncoder, b'{"pieces": ["a"], "languages": {"ids": {"de": "x"}}}\n', "table"),
    (PieceTableEncoder, b'{"pieces": ["a"], "languages": {"codes": {}}}\n', "table codes"),
    (PieceTableEncoder, b'{"pieces": ["a", "b", "c", "d"]}\nmodel', "SentencePiece 5"),
    (PieceTableEncoder, b'{"pieces": ["a", "b", "c", "a"]}\n' + PIECES, "4 3"),
    *((SentencePieceEncoder, content, f"{len(content):,}") for content in (b"", b"abc", PIECES[:-1], PIECES[:1000])),
    (SubwordEncoder, b"", "subword '<pad>_' '<EOS>_'"),
    (SubwordEncoder, b"'the_'\n'of_'\n", "subword 'the_ of_';"),
    (SubwordEncoder, b"### SubwordTextEncoder\n### Metadata: {}\n'the_'\n", "subword SubwordTextEncoder"),
    (SubwordEncoder, b"'<pad>_'\n'<EOS>_'\n'\xff'\n", "subword UTF-8"),
    (SubwordEncoder, b"'<pad>_'\n'<EOS>_'\n'a_'\n", r"subword 0 1 2 3 4 5 6 7 8 9 ; \ _ u"),
    *((TokenEncoder, content, name) for content, name in ((b"a\nb\n", "'a"), (b"", "<unk>"), (WORDS + b"a\nb", "'b'"))),
    *((TokenEncoder, WORDS + content, name) for content, name in ((b"a\na\n", "'a'"), (b"a b\n", "b'"))),
    *((TokenEncoder, WORDS + content, name) for content, name in ((b"\nb\n", "''"), (b"\xff\n", "UTF-8"))),
    *((WordListEncoder, content, name) for content, name in ((b"a\nb\n", "'a"), (b"<pad>\n<EOS>\n\xff\n", "UTF-8"))),
])  # fmt: skip
def test_damaged_content_is_refused(kind, content, names):
    with refused(*names.split()):
        kind.from_bytes(content)


@pytest.mark.parametrize(("kind", "lines", "size", "names"), [
    *((kind, ["", "  "], 10, "") for kind in (TokenEncoder, WordListEncoder)),
    *((kind, ["a"], 3, "3 4") for kind in (TokenEncoder, WordListEncoder)),
    *((SentencePieceEncoder, lines, 300, "sentencepiece") for lines in ([], ["", ""])),
    (SubwordEncoder, ["", ""], 100, "subword"),
    *((kind, ["a b"], 10, "") for kind in (BpeEncoder, PieceTableEncoder)),  # which come with imported models
])  # fmt: skip
def test_texts_that_give_no_vocabulary_are_refused(kind, lines, size, names):
    with refused(*names.split()):
        kind.build(lines, size)


@pytest.mark.parametrize("content", [b"\xff\n", b"the\nof\n", None])
def test_a_vocabulary_of_a_folder_that_cannot_be_read_is_named_with_a_cure(content, tmp_path):
    """Its content is not that of its kind although the fingerprint holds; or it is a folder itself."""
    if content is None:
        (tmp_path / "v").mkdir()
    else:
        (tmp_path / "v").write_bytes(content)
    record = VocabularyFile(kind="token", file="v", size=9, fingerprint=fingerprint_of("token", content or b""))
    with refused(tmp_path / "v", "t2t-datagen"):
        read_encoders(tmp_path, {"inputs": record}, "make it with t2t-datagen")


def test_a_subword_vocabulary_that_is_read_can_be_saved_under_its_fingerprint(tmp_path):
    (tmp_path / "theirs").write_bytes(SUBWORDS.replace(b"'", b"") + b"\n")
    read_vocabulary(tmp_path / "theirs").save(tmp_path / "ours")
    theirs = read_vocabulary(tmp_path / "theirs")
    assert SubwordEncoder.load(tmp_path / "ours").fingerprint == theirs.fingerprint
    assert theirs.encode("one cat, UND") == BUILT["subword"].encode("one cat, UND"), "ids do not depend on quotes"


@pytest.mark.parametrize("content", ["one 12\ntwo 7\n", "one\t-2.5\ntwo\t-3e1\n", "<pad>\n<EOS>\none 5\ntwo 3\nUNK"])
def test_words_with_counts_are_refused_with_a_command_whose_list_is_read(content, tmp_path):
    (tmp_path / "dict.txt").write_text(content)
    with refused(tmp_path / "dict.txt", "<pad>", "<EOS>", "UNK:") as error:
        read_vocabulary(tmp_path / "dict.txt")
    subprocess.run(re.search(r"{ .* }.*", str(error.value))[0], shell=True, check=True, cwd=tmp_path)
    assert read_vocabulary(tmp_path / "words.txt").encode("two one else") == (
        WordListEncoder((tmp_path / "words.txt").read_text().split()).encode("two one UNK")
    )
