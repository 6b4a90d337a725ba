"""A vocabulary file is read as what it is."""

import gzip
import pickle

import pytest

from t2t.text import ENCODER_CLASSES
from t2t.text.subword import SubwordEncoder
from t2t.text.vocabulary_files import read_vocabulary
from tests.errors import refused

LINES = ["one man and two dogs", "two women and one cat; 1 u _ \\"] * 20
BUILT = {kind: encoder.build(LINES, 300) for kind, encoder in ENCODER_CLASSES.items()}
SUBWORDS = BUILT["subword"].to_bytes()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ENCODER_CLASSES)
def test_the_kind_is_seen_from_the_content_and_a_vocabulary_comes_back(kind, packed, tmp_path):
    BUILT[kind].save(tmp_path / "vocabulary")
    if packed:
        (tmp_path / "vocabulary").write_bytes(gzip.compress((tmp_path / "vocabulary").read_bytes()))
    found = [read_vocabulary(tmp_path / "vocabulary"), pickle.loads(pickle.dumps(BUILT[kind]))]
    for again in found if packed else [*found, ENCODER_CLASSES[kind].load(tmp_path / "vocabulary")]:
        assert type(again) is ENCODER_CLASSES[kind]
        assert (again.fingerprint, again.to_bytes()) == (BUILT[kind].fingerprint, BUILT[kind].to_bytes())
        assert again.encode("two dogs, one _") == BUILT[kind].encode("two dogs, one _")


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
    ("name", "content", "about"),
    [
        ("notes.txt", b"To be", "b'To"),
        ("empty", b"", "b'',"),
        ("v.subwords", b"the\nof\n", "subword 'the"),
        ("v.subwords.gz", b"the\nof\n", "subword 'the"),
        ("v.spm", b"the\nof\n", "sentencepiece 7"),
        ("v.model", BUILT["sentencepiece"].to_bytes()[:-9], "sentencepiece"),
        ("v.tokens", b"the\nof\n", "token 'the"),
        ("v.gz", gzip.compress(SUBWORDS)[:-9], "gzip"),
    ],
)
def test_other_files_are_named(name, content, about, tmp_path):
    (tmp_path / name).write_bytes(content)
    with refused(tmp_path / name, *about.split()):
        read_vocabulary(tmp_path / name)


def test_no_file(tmp_path):
    for path in (tmp_path / "absent", tmp_path):
        with refused(path):
            read_vocabulary(path)


def test_a_subword_vocabulary_that_is_read_can_be_saved_under_its_fingerprint(tmp_path):
    (tmp_path / "theirs").write_bytes(SUBWORDS.replace(b"'", b"") + b"\n")
    read_vocabulary(tmp_path / "theirs").save(tmp_path / "ours")
    assert SubwordEncoder.load(tmp_path / "ours").fingerprint == read_vocabulary(tmp_path / "theirs").fingerprint
