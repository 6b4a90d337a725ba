"""`t2t-vocab`: summaries, ids and pieces of vocabularies of every kind."""

import pytest

from t2t.cli import vocab
from t2t.files.paths import local_path
from t2t.text.byte import ByteEncoder
from t2t.text.label import LabelEncoder
from t2t.text.sentencepiece import SentencePieceEncoder
from t2t.text.subword import SubwordEncoder
from tests.in_process import call, refuses

LINES = ["one old man, two dogs", "the old dogs run"] * 20
SUBWORD = SubwordEncoder([
    "<pad>_", "<EOS>_", "old_", ", _", "dog", "s_", "\t_", "'", *"\\_u;0123456789",
])  # fmt: skip


@pytest.fixture
def run(stdin):
    """Runs the command on standard input; returns (stdout, stderr)."""

    def call_with(*flags, given=b""):
        stdin(given)
        return call(vocab, *flags)

    return call_with


@pytest.fixture
def file(tmp_path):
    SUBWORD.save(tmp_path / "ours.subwords")
    return f"--vocab_file={tmp_path / 'ours.subwords'}"


def test_summary_and_ids_and_pieces_by_hand_without_end_of_sequence(run, file, tmp_path):
    assert run(file) == (
        f"file         {tmp_path / 'ours.subwords'}\n"
        "kind         subword\n"
        "size         22 ids\n"
        "reserved     0 <pad>_, 1 <EOS>_\n"
        f"fingerprint  {SUBWORD.fingerprint}\n"
        "longest      0 <pad>_, 6 characters\n"
        "first        2 old_, 3 ,▁_, 4 dog, 5 s_, 6 <U+0009>_, 7 ', 8 \\, 9 _\n"
        "last         14 2, 15 3, 16 4, 17 5, 18 6, 19 7, 20 8, 21 9\n",
        "",
    )
    given = b"old dogs, old\n\n\told\n'\xe2\x98\x83"
    assert run(file, "--encode", given=given) == ("2 4 5 3 2\n\n6 2\n7 8 21 19 15 13 11 9\n", "")
    assert run(file, "--pieces", given=b"old dogs, old\n\told\n").out == "old_ dog s_ ,▁_ old_\n<U+0009>_ old_\n"
    out, err = run(file, "--decode", given=b"2 4 5 3 2\n\n 6  2 1 4 4\n8 13 12 11 9")
    assert out == "old dogs, old\n\n\told\n \n"
    assert err == "warning: standard input: line breaks replaced by spaces in the text in 1 lines\n"


@pytest.mark.parametrize("build", [SentencePieceEncoder.build, SubwordEncoder.build, ByteEncoder.build])
def test_every_kind_goes_there_and_back(run, tmp_path, build):
    build(LINES, 300).save(tmp_path / "vocabulary")
    file = f"--vocab_file={tmp_path / 'vocabulary'}"
    text = "old dogs\t run,  ☃ \\ _ \u2028\n\n the\n"
    ids = run(file, "--encode", given=text.encode()).out
    assert not {"0", "1"} & set(ids.split())
    assert run(file, "--decode", given=ids.encode()) == (text, "")
    pieces = run(file, "--pieces", given=text.encode()).out
    assert [len(line.split()) for line in pieces.split("\n")] == [len(line.split()) for line in ids.split("\n")]


def test_the_vocabulary_of_a_run(run):
    path = local_path("zoo:ende_numbers/vocab/vocab.shared.sentencepiece.spm")
    folder = "--output_dir=zoo:ende_numbers"
    out = run(folder).out
    assert f"file         {path}\nkind         sentencepiece\nsize         1,024 ids\n" in out
    assert "reserved     0 <pad>, 1 </s>, 2 <unk>\n" in out
    ids = run(folder, "--encode", given=b"twenty-one cats").out
    assert run(f"--vocab_file={path}", "--decode", given=ids.encode()).out == "twenty-one cats\n"


@pytest.mark.parametrize(
    ("flags", "given", "about"),
    [
        ("", b"", "--vocab_file, --output_dir:"),
        ("--vocab_file=a --output_dir=b", b"", "--vocab_file, --output_dir:"),
        ("--vocab_file=FILE --encode --decode", b"", "--encode --decode"),
        ("--vocab_file=absent", b"", "absent:"),
        ("--vocab_file=PICTURE", b"", "PICTURE: b'\\x89PNG',"),
        ("--vocab_file=FILE --decode", b"2\n3 old", "2: 'old' 0 21"),
        ("--vocab_file=FILE --decode", b"22", "1: '22' 0 21"),
        ("--vocab_file=FILE --decode", b"-1", "1: '-1' 0 21"),
        ("--vocab_file=classes.labels --decode", b"1\n0 1", "2: 2"),
        ("--vocab_file=classes.labels --decode", b"0\n\n1", "2: 0"),
        ("--vocab_file=LIST --encode", b"a\nb", "2: 'b'"),
    ],
)
def test_mistakes(tmp_path, monkeypatch, stdin, flags, given, about):
    monkeypatch.chdir(tmp_path)
    SUBWORD.save(tmp_path / "FILE")
    (tmp_path / "LIST").write_text("<pad>\n<EOS>\na\n")
    (tmp_path / "PICTURE").write_bytes(b"\x89PNG")
    LabelEncoder(["bad", "good"]).save(tmp_path / "classes.labels")
    stdin(given)
    assert refuses(vocab, about, *flags.split()).err.count("\n") == 1
