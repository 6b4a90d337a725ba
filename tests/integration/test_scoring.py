"""`t2t-decoder --score_file` and `t2t-eval --choice_file` with a trained run, compared with the Python API."""

import random
import re

import pytest

import t2t
from t2t.cli import decoder
from t2t.cli import eval as eval_command
from tests.in_process import call, refuses

PAIRS = [("1 2 3", "3 2 1"), ("1 2 3", "1 2 3"), ("", "4"), ("5 6", ""), ("\ufffd 7", "7 \ufffd"), ("9 " * 30, "9 9")]
RAW = b"".join(f"{source}\t{target}\n".encode() for source, target in PAIRS).replace("\ufffd".encode(), b"\xff")


def test_the_scores_are_those_of_the_translator(tiny_run, tmp_path, stdin):
    pairs, out, run = tmp_path / "pairs", tmp_path / "out", {"output_dir": tiny_run.output_dir}
    pairs.write_bytes(RAW)
    err = call(decoder, "--decode_window=4", **run, score_file=pairs, decode_to_file=out).err
    written = out.read_text().splitlines()
    assert all(len(line.partition(".")[2]) == 6 for line in written)
    by_api = t2t.load(tiny_run.output_dir).score(PAIRS)
    assert [float(line) for line in written] == pytest.approx(by_api, abs=2e-5)
    assert len(set(written)) == len(PAIRS)
    assert "warning: invalid UTF-8 replaced in 1 line" in err
    assert f"tokens/s; written to {out}" in err
    assert "scored 6 lines in " in err
    stdin(b"1 2 3\t3 2 1\n")
    assert float(call(decoder, "--score_file=-", **run).out) == pytest.approx(by_api[0], abs=2e-5)


def test_without_a_name_the_scores_lie_beside_the_file(tiny_run, tmp_path):
    (tmp_path / "pairs").write_bytes(RAW)
    err = call(decoder, "--max_input_length=3", output_dir=tiny_run.output_dir, score_file=tmp_path / "pairs").err
    written = (tmp_path / "pairs.transformer.transformer_tiny.text2text_files.scores").read_text().splitlines()
    assert [line == "nan" for line in written] == [True, True, False, False, False, False]
    assert re.search(r"^warning: cut to the 3 ids .*: 3 lines \(number 1, 2, 6\)", err, re.M)
    assert re.search(r"^warning: not scored \(nan\), .* 3 ids .*: 2 lines \(number 1, 2\)", err, re.M)


@pytest.mark.parametrize(
    ("flags", "about"),
    [
        ("--score_file=pairs --n_best=2", "--n_best --score_file"),
        ("--score_file=pairs --decode_beam_size=2 --decode_alpha=1", "--decode_beam_size, --decode_alpha --score_file"),
        ("--score_file=pairs --decode_from_file=pairs", "--decode_from_file --score_file"),
        ("--score_file=pairs", "pairs 2 1 TAB"),
    ],
)
def test_mistakes_leave_nothing(tiny_run, tmp_path, monkeypatch, flags, about):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs").write_text("1\t1\nno tab\n")
    refuses(decoder, about, *flags.split(), output_dir=tiny_run.output_dir)
    assert [path.name for path in tmp_path.iterdir()] == ["pairs"]


# === Choices ===


def test_choices_are_counted_as_the_translator_scores(tiny_run, tmp_path):
    rng, choices = random.Random(1), tmp_path / "choices"
    rows = [(rng.choices("0123456789", k=4), rng.choice("AB")) for _ in range(20)]
    lines = [(" ".join(row), " ".join(row[::-1]), " ".join(row), letter) for row, letter in rows]
    choices.write_text("".join("\t".join(line) + "\n" for line in lines))
    translator = t2t.load(tiny_run.output_dir)
    scores = translator.score([pair for source, a, b, _ in lines for pair in ((source, a), (source, b))])
    right = sum((scores[2 * n] > scores[2 * n + 1]) == (line[3] == "A") for n, line in enumerate(lines))
    assert 0 < right < 20, "a count that could not be otherwise shows nothing"
    assert call(eval_command, output_dir=tiny_run.output_dir, choice_file=choices).out == (
        f"20 choices of {choices}, step-00000040 (40 updates)\naccuracy {right / 20:.3f} ({right} of 20)\n"
    )
    searching, run = ["--split=test", "--decode_beam_size=2"], {"output_dir": tiny_run.output_dir}
    refuses(eval_command, "--split, --decode_beam_size: --choice_file", *searching, **run, choice_file=choices)
    refuses(eval_command, "/dev/null TAB", **run, choice_file="/dev/null")
