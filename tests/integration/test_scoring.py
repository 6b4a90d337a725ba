"""`t2t-decoder --score_file` and `t2t-eval --choice_file` with a trained run, compared with the Python API."""

import io
import random
import sys
from types import SimpleNamespace

import pytest

import t2t
from t2t.cli import decoder
from t2t.cli import eval as eval_command

PAIRS = [("1 2 3", "3 2 1"), ("1 2 3", "1 2 3"), ("", "4"), ("5 6", ""), ("\ufffd 7", "7 \ufffd"), ("9 " * 30, "9 9")]
RAW = b"".join(f"{source}\t{target}\n".encode() for source, target in PAIRS).replace("\ufffd".encode(), b"\xff")


@pytest.fixture
def score(tiny_run):
    """Runs the command on the run."""
    return lambda *flags: decoder.main(["t2t-decoder", f"--output_dir={tiny_run.output_dir}", *map(str, flags)])


@pytest.mark.slow
def test_the_scores_are_those_of_the_translator(tiny_run, score, tmp_path, capsys):
    (tmp_path / "pairs").write_bytes(RAW)
    assert score(f"--score_file={tmp_path / 'pairs'}", f"--decode_to_file={tmp_path / 'out'}", "--decode_window=4") == 0
    written = (tmp_path / "out").read_text().splitlines()
    assert all(len(line.partition(".")[2]) == 6 for line in written)
    by_api = t2t.load(tiny_run.output_dir).score(PAIRS)
    assert [float(line) for line in written] == pytest.approx(by_api, abs=2e-5)
    assert len(set(written)) == len(PAIRS)
    err = capsys.readouterr().err
    assert "warning: invalid UTF-8 replaced in 1 line" in err
    assert f"tokens/s; written to {tmp_path / 'out'}" in err
    assert "scored 6 lines in " in err


def test_without_a_name_the_scores_lie_beside_the_file(score, tmp_path, capsys):
    (tmp_path / "pairs").write_bytes(RAW)
    assert score(f"--score_file={tmp_path / 'pairs'}", "--max_input_length=3") == 0
    written = (tmp_path / "pairs.transformer.transformer_tiny.text2text_files.scores").read_text().splitlines()
    assert [line == "nan" for line in written] == [True, True, False, False, False, False]
    err = capsys.readouterr().err
    assert "warning: cut to the 3 ids that max_input_length allows: 3 lines (number 1, 2, 6)" in err
    assert (
        "warning: not scored (nan), since the target is longer than the 3 ids that max_input_length allows: 2 lines "
        "(number 1, 2)"
    ) in err


def test_standard_input_and_output(tiny_run, score, monkeypatch, capfdbinary):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"1 2\t2 1\n")))
    assert score("--score_file=-") == 0
    (by_api,) = t2t.load(tiny_run.output_dir).score([("1 2", "2 1")])
    assert float(capfdbinary.readouterr().out) == pytest.approx(by_api, abs=2e-5)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--score_file=pairs", "--n_best=2"], "--n_best: --score_file searches nothing; leave it out"),
        (
            ["--score_file=pairs", "--decode_beam_size=2", "--decode_alpha=1"],
            "--decode_beam_size, --decode_alpha: --score_file searches nothing; leave them out",
        ),
        (["--score_file=pairs", "--decode_from_file=pairs"], "--decode_from_file and --score_file are given"),
        (["--score_file=gone"], "gone: there is no such file; check the path"),
        (["--score_file=pairs"], "pairs: line 2 has 1 column; a line needs 2, source TAB target; correct the file"),
    ],
)
def test_mistakes_leave_nothing(score, tmp_path, monkeypatch, capsys, flags, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs").write_text("1\t1\nno tab\n")
    assert score(*flags) == 2
    assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["pairs"]


# === Choices ===


def test_choices_are_counted_as_the_translator_scores(tiny_run, tmp_path, monkeypatch, capsys):
    rng = random.Random(1)
    rows = [(rng.choices("0123456789", k=4), rng.choice("AB")) for _ in range(20)]
    lines = [(" ".join(row), " ".join(row[::-1]), " ".join(row), letter) for row, letter in rows]
    (tmp_path / "choices").write_text("".join("\t".join(line) + "\n" for line in lines))
    translator = t2t.load(tiny_run.output_dir)
    scores = [translator.score([(source, a), (source, b)]) for source, a, b, _ in lines]
    right = sum((a > b) == (line[3] == "A") for (a, b), line in zip(scores, lines, strict=True))
    assert 0 < right < 20, "a count that could not be otherwise shows nothing"
    capsys.readouterr()
    flags = [f"--output_dir={tiny_run.output_dir}", f"--choice_file={tmp_path / 'choices'}"]
    assert eval_command.main(["t2t-eval", *flags]) == 0
    out = capsys.readouterr().out
    assert out == (
        f"20 choices of {tmp_path / 'choices'}, step-00000040 (40 updates)\naccuracy {right / 20:.3f} ({right} of 20)\n"
    )


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--choice_file=/gone"], "/gone: there is no such file; check the path"),
        (
            ["--choice_file=/dev/null", "--split=test", "--decode_beam_size=2"],
            "--split, --decode_beam_size: --choice_file needs no data and searches nothing; leave them out",
        ),
        (["--choice_file=/dev/null"], "/dev/null: it has no lines; a line needs source TAB output A TAB output B TAB"),
    ],
)
def test_mistakes_of_choices(tiny_run, capsys, flags, said):
    assert eval_command.main(["t2t-eval", f"--output_dir={tiny_run.output_dir}", *flags]) == 2
    assert said in capsys.readouterr().err
