"""`t2t-decoder --attention_to_html`: a page from the command line, and what is refused."""

import io
import json
import re
import sys

import pytest

import t2t
from t2t.cli import decoder


def figures_of(path):
    return json.loads(re.search(r'id="figures">(.*?)</script>', path.read_text())[1])


@pytest.mark.slow
def test_lines_of_a_file_or_of_standard_input_are_drawn(tiny_run, tmp_path, monkeypatch, capsys):
    (tmp_path / "lines").write_text("1 2 3\n4 5\t5 4\n")
    flags = ["t2t-decoder", f"--output_dir={tiny_run.output_dir}", f"--attention_to_html={tmp_path / 'a.html'}"]
    assert decoder.main([*flags, f"--decode_from_file={tmp_path / 'lines'}"]) == 0
    assert "2 pictures written to" in capsys.readouterr().err
    best = t2t.load(str(tiny_run.output_dir)).translate(["1 2 3"])[0][0].text
    assert [(one["source"], one["target"]) for one in figures_of(tmp_path / "a.html")] == [
        ("1 2 3", best),
        ("4 5", "5 4"),
    ]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"4 5\t5 4\n")))
    assert decoder.main(flags) == 0
    assert [one["target"] for one in figures_of(tmp_path / "a.html")] == ["5 4"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--score_file=x"], "--attention_to_html and --score_file are given; the command does one thing at a time"),
        (["--n_best=2"], "--n_best: --attention_to_html draws the best output of each line; leave it out"),
        (["--decode_to_file=x"], "--decode_to_file: --attention_to_html draws the best output of each line"),
        (["--attention_to_html=/nowhere/a.html"], "cannot write /nowhere/a.html: there is no folder /nowhere"),
    ],
)
def test_mistakes(tiny_run, tmp_path, capsys, flags, message):
    page = [] if "/nowhere" in flags[0] else [f"--attention_to_html={tmp_path / 'a.html'}"]
    assert decoder.main(["t2t-decoder", f"--output_dir={tiny_run.output_dir}", *page, *flags]) == 2
    assert message in capsys.readouterr().err
