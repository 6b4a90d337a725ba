"""A vocabulary file is read as what it is."""

import gzip

import pytest

from t2t.errors import UserError
from t2t.text import ENCODER_CLASSES
from t2t.text.subword import SubwordEncoder
from t2t.text.vocabulary_files import read_vocabulary

LINES = ["one man and two dogs", "two women and one cat; 1 u _ \\"] * 20
BUILT = {kind: encoder.build(LINES, 300) for kind, encoder in ENCODER_CLASSES.items()}
SUBWORDS = BUILT["subword"].to_bytes()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ENCODER_CLASSES)
def test_the_kind_is_seen_from_the_content(kind, packed, tmp_path):
    content = BUILT[kind].to_bytes()
    (tmp_path / "vocabulary").write_bytes(gzip.compress(content) if packed else content)
    found = read_vocabulary(tmp_path / "vocabulary")
    assert type(found) is ENCODER_CLASSES[kind]
    assert found.fingerprint == BUILT[kind].fingerprint


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (SUBWORDS.replace(b"'", b""), "subword"),
        (SUBWORDS.replace(b"'", b'"'), "subword"),
        (SUBWORDS.replace(b"'", b"").replace(b"<pad>_", b"<pad>").replace(b"<EOS>_", b"<EOS>"), "subword"),
        (SUBWORDS.replace(b"<pad>_", b"").replace(b"<EOS>_", b""), "subword"),
        ("\n".join(["<pad>", "<EOS>", *"\\_u;0123456789", *(f"w{n}" for n in range(100))]).encode(), "word_list"),
    ],
)
def test_files_of_tensor2tensors_versions(content, kind, tmp_path):
    (tmp_path / "vocab.txt").write_bytes(content)
    assert read_vocabulary(tmp_path / "vocab.txt").kind == kind


def test_ids_do_not_depend_on_quotes(tmp_path):
    (tmp_path / "vocab").write_bytes(SUBWORDS.replace(b"'", b""))
    assert read_vocabulary(str(tmp_path / "vocab")).encode("one cat, UND") == BUILT["subword"].encode("one cat, UND")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("notes.txt", b"To be, or not", "it starts with b'To be, or not', as no known kind does; give a SentencePiece"),
        ("empty", b"", "it starts with b'', as no known kind does"),
        ("v.subwords", b"the\nof\n", "subword vocabulary: the file starts with 'the of'"),
        ("v.subwords.gz", b"the\nof\n", "subword vocabulary: the file starts with 'the of'"),
        ("v.spm", b"the\nof\n", "sentencepiece vocabulary: the file of 7 bytes is damaged or no SentencePiece model"),
        ("v.model", BUILT["sentencepiece"].to_bytes()[:-9], "sentencepiece vocabulary: the file of"),
        ("v.tokens", b"the\nof\n", "token vocabulary: the file starts with 'the of"),
        ("v.gz", gzip.compress(SUBWORDS)[:-9], "the gzip file is damaged"),
    ],
)
def test_other_files_are_named(name, content, said, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as caught:
        read_vocabulary(tmp_path / name)
    assert str(caught.value).startswith(f"vocabulary {tmp_path / name}: ")
    assert said in str(caught.value)


def test_no_file(tmp_path):
    with pytest.raises(UserError, match=r"vocabulary .*/absent: there is no such file; check the path"):
        read_vocabulary(tmp_path / "absent")
    with pytest.raises(UserError, match=r"vocabulary .*: cannot be read \(Is a directory\); check the path"):
        read_vocabulary(tmp_path)


def test_a_subword_vocabulary_that_is_read_can_be_saved_under_its_fingerprint(tmp_path):
    (tmp_path / "theirs").write_bytes(SUBWORDS.replace(b"'", b"") + b"\n")
    read_vocabulary(tmp_path / "theirs").save(tmp_path / "ours")
    assert SubwordEncoder.load(tmp_path / "ours").fingerprint == read_vocabulary(tmp_path / "theirs").fingerprint
