"""`t2t-vocab`, and `vocab_kind=subword` through generating, training and decoding."""

import io
import subprocess
import sys
from types import SimpleNamespace

import pytest

from t2t.cli import datagen, decoder, trainer, vocab
from t2t.text.byte import ByteEncoder
from t2t.text.label import LabelEncoder
from t2t.text.sentencepiece import SentencePieceEncoder
from t2t.text.subword import SubwordEncoder
from tests.integration.conftest import TINY, write_digits

pytestmark = pytest.mark.slow

LINES = ["one old man, two dogs", "the old dogs run"] * 20
SUBWORD = SubwordEncoder([
    "<pad>_", "<EOS>_", "old_", ", _", "dog", "s_", "\t_", "'", *"\\_u;0123456789",
])  # fmt: skip


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs the command on standard input; returns (status, stdout, stderr)."""

    def call(*flags, stdin=b""):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(stdin)))
        return vocab.main(["t2t-vocab", *map(str, flags)]), *capsys.readouterr()

    return call


@pytest.fixture
def file(tmp_path):
    SUBWORD.save(tmp_path / "ours.subwords")
    return f"--vocab_file={tmp_path / 'ours.subwords'}"


def test_summary(run, file, tmp_path):
    assert run(file) == (
        0,
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


def test_ids_by_hand_without_end_of_sequence(run, file):
    status, out, err = run(file, "--encode", stdin=b"old dogs, old\n\n\told\n'\xe2\x98\x83")
    # the snowman U+2603 is 9731 in decimal; it forms one token with the apostrophe before it
    assert (status, err) == (0, "")
    assert out == "2 4 5 3 2\n\n6 2\n7 8 21 19 15 13 11 9\n"


def test_pieces_have_no_white_space_in_them(run, file):
    assert run(file, "--pieces", stdin=b"old dogs, old\n\told\n")[1] == "old_ dog s_ ,▁_ old_\n<U+0009>_ old_\n"


def test_ids_come_back_as_text(run, file):
    status, out, err = run(file, "--decode", stdin=b"2 4 5 3 2\n\n 6  2 1 4 4\n8 13 12 11 9")
    assert (status, out) == (0, "old dogs, old\n\n\told\n \n")
    assert err == "warning: standard input: line breaks replaced by spaces in the text in 1 lines\n"


@pytest.mark.parametrize("build", [SentencePieceEncoder.build, SubwordEncoder.build, ByteEncoder.build])
def test_every_kind_goes_there_and_back(run, tmp_path, build):
    build(LINES, 300).save(tmp_path / "vocabulary")
    file = f"--vocab_file={tmp_path / 'vocabulary'}"
    text = "old dogs\t run,  ☃ \\ _ \u2028\n\n the\n"
    status, ids, _ = run(file, "--encode", stdin=text.encode())
    assert status == 0
    assert not {"0", "1"} & set(ids.split())
    assert run(file, "--decode", stdin=ids.encode()) == (0, text, "")
    pieces = run(file, "--pieces", stdin=text.encode())[1]
    assert [len(line.split()) for line in pieces.split("\n")] == [len(line.split()) for line in ids.split("\n")]


def test_the_vocabulary_of_a_run(run, tiny_run):
    folder = f"--output_dir={tiny_run.output_dir}"
    status, out, _ = run(folder)
    assert status == 0
    assert f"file         {tiny_run.output_dir}/vocab/vocab.shared.token.tokens\nkind         token\n" in out
    assert "reserved     0 <pad>, 1 </s>, 2 <unk>\n" in out
    ids = run(folder, "--encode", stdin=b"1 2 x")[1]
    path = tiny_run.output_dir / "vocab/vocab.shared.token.tokens"
    assert run(f"--vocab_file={path}", "--decode", stdin=ids.encode())[1] == "1 2 <unk>\n"


@pytest.mark.parametrize(
    ("flags", "stdin", "said"),
    [
        (
            [],
            b"",
            "--vocab_file, --output_dir: neither is given; name the file of a vocabulary, or the folder of a run",
        ),
        (["--vocab_file=a", "--output_dir=b"], b"", "--vocab_file, --output_dir: both are given; name"),
        (["--vocab_file=FILE", "--encode", "--decode"], b"", "--encode and --decode are given; one at a time"),
        (["--vocab_file=absent"], b"", "vocabulary absent: there is no such file; check the path"),
        (
            ["--vocab_file=PICTURE"],
            b"",
            "it starts with b'\\x89PNG', as no known kind does; give a SentencePiece model",
        ),
        (["--output_dir=absent"], b"", "no run in absent"),
        (["--vocab_file=FILE", "--decode"], b"2\n3 old", "standard input, line 2: 'old' is no id; ids are 0 to 21"),
        (["--vocab_file=FILE", "--decode"], b"22", "standard input, line 1: '22' is no id; ids are 0 to 21"),
        (["--vocab_file=FILE", "--decode"], b"-1", "standard input, line 1: '-1' is no id; ids are 0 to 21"),
        (["--vocab_file=classes.labels", "--decode"], b"1\n0 1", "standard input, line 2: 2 ids; a class is one id"),
        (["--vocab_file=classes.labels", "--decode"], b"0\n\n1", "standard input, line 2: 0 ids; a class is one id"),
        (["--vocab_file=LIST", "--encode"], b"a\nb", "standard input, line 2: word list: 'b' is not on it"),
    ],
)
def test_mistakes(run, tmp_path, flags, stdin, said):
    SUBWORD.save(tmp_path / "FILE")
    (tmp_path / "LIST").write_text("<pad>\n<EOS>\na\n")
    (tmp_path / "PICTURE").write_bytes(b"\x89PNG")
    LabelEncoder(["bad", "good"]).save(tmp_path / "classes.labels")
    for name in ("FILE", "LIST", "PICTURE", "classes.labels"):
        flags = [flag.replace(name, str(tmp_path / name)) for flag in flags]
    status, _, err = run(*flags, stdin=stdin)
    assert status == 2
    assert err.startswith("t2t-vocab: error: ")
    assert said in err
    assert err.count("\n") == 1


def test_it_starts_at_once(file):
    code = (
        "import sys; from t2t.cli import vocab; status = vocab.main(sys.argv)\n"
        "assert not {'tensorflow', 'keras'} & sys.modules.keys(), 'heavy imports'; sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code, file, "--encode"], input=b"old", capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"2\n", b"")


def test_a_subword_run_generates_trains_and_decodes(run, tmp_path, capsys):
    (tmp_path / "raw").mkdir()
    flags = [flag for flag in write_digits(tmp_path / "raw") if "vocab_kind" not in flag]
    flags += ["--vocab_kind=subword", "--vocab_size=50", f"--data_dir={tmp_path / 'data'}"]
    assert datagen.main(["t2t-datagen", *flags]) == 0
    assert "subword vocabulary of" in capsys.readouterr().err
    train = ["--model=transformer", "--hparams_set=transformer_tiny", f"--hparams={TINY}", "--worker_cpu=1"]
    train += [f"--output_dir={tmp_path / 'run'}", "--train_steps=2", "--eval_steps=1"]
    assert trainer.main(["t2t-trainer", *flags, *train]) == 0
    files = [f"--decode_from_file={tmp_path / 'raw/test.source'}", f"--decode_to_file={tmp_path / 'out'}"]
    assert decoder.main(["t2t-decoder", f"--output_dir={tmp_path / 'run'}", *files]) == 0
    assert (tmp_path / "out").read_text().count("\n") == 8
    capsys.readouterr()
    status, out, _ = run(f"--output_dir={tmp_path / 'run'}")
    assert status == 0
    assert "kind         subword\n" in out
