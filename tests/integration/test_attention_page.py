"""`t2t-decoder --attention_to_html`: a page from the command line, and what is refused."""

import json
import re

import pytest

import t2t
from t2t.cli import decoder
from tests.in_process import call, refuses


def pairs_of(path):
    figures = json.loads(re.search(r'id="figures">(.*?)</script>', path.read_text())[1])
    return [(one["source"], one["target"]) for one in figures]


@pytest.mark.slow  # that the figures of a file and of standard input are of their lines, on the command line
def test_lines_of_a_file_or_of_standard_input_are_drawn(tiny_run, tmp_path, stdin):
    (tmp_path / "lines").write_text("1 2 3\n4 5\t5 4\n")
    flags = {"output_dir": tiny_run.output_dir, "attention_to_html": tmp_path / "a.html"}
    call(decoder, decode_from_file=tmp_path / "lines", **flags)
    best = t2t.load(str(tiny_run.output_dir)).translate(["1 2 3"])[0][0].text
    assert pairs_of(tmp_path / "a.html") == [("1 2 3", best), ("4 5", "5 4")]
    stdin(b"4 5\t5 4\n")
    call(decoder, **flags)
    assert pairs_of(tmp_path / "a.html") == [("4 5", "5 4")]


@pytest.mark.parametrize(
    ("flags", "about"),
    [
        ({"score_file": "x"}, "--attention_to_html --score_file"),
        ({"n_best": 2}, "--n_best --attention_to_html"),
        ({"decode_to_file": "x"}, "--decode_to_file --attention_to_html"),
        ({"attention_to_html": "/nowhere/a.html"}, "/nowhere/a.html"),
    ],
)
def test_mistakes(tiny_run, tmp_path, flags, about):
    refuses(decoder, about, output_dir=tiny_run.output_dir, **{"attention_to_html": tmp_path / "a.html", **flags})
