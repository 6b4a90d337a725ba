"""Every output format gives one line for each input, whatever the model's output."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t.errors import UnknownNameError
from t2t.inference.files.formats import FORMATS, renderer
from t2t.inference.translator import Hypothesis
from tests.errors import refused

FOUND = [Hypothesis("ein\nHund\r", (5, 1), -0.5, -0.75), Hypothesis("der\tHund\u2028", (6, 1), -1.25, -1.5)]
ALIGNED = [
    Hypothesis("ein Hund", (5, 6, 1), -0.5, -0.75, alignment=((0, 1), (2, 0))),
    Hypothesis("", (1,), -1.0, -1.0, alignment=()),
]


@pytest.mark.parametrize(
    ("name", "found", "n_best", "line", "replaced"),
    [
        ("text", FOUND[:1], 1, "ein Hund ", 1),
        ("text", FOUND[1:], 1, "der\tHund\u2028", 0),
        ("text", FOUND, 2, "ein Hund \tder Hund\u2028", 2),  # no tab stands in one of several
        ("tsv", FOUND, 3, "ein Hund \t-0.500000\t-0.750000\tder Hund\u2028\t-1.250000\t-1.500000\t\t\t", 2),
        ("text", ALIGNED[:1], 1, "ein Hund ||| 0-1 2-0", 0),
        ("text", ALIGNED, 2, "ein Hund ||| 0-1 2-0\t ||| ", 0),
        ("tsv", ALIGNED, 3, "ein Hund\t-0.500000\t-0.750000\t0-1 2-0\t\t-1.000000\t-1.000000\t\t\t\t\t", 0),
        ("pharaoh", ALIGNED, 2, "0-1 2-0\t", 0),
        ("pharaoh", ALIGNED[1:], 1, "", 0),
    ],
)
def test_a_line_of_outputs(name, found, n_best, line, replaced):
    assert renderer(name)(7, found, n_best) == (line, replaced)


def test_jsonl_keeps_every_character():
    line, replaced = renderer("jsonl")(7, FOUND, 2)
    assert replaced == 0
    assert line.splitlines() == [line]
    assert json.loads(line) == {
        "line": 7,
        "hypotheses": [
            {"text": "ein\nHund\r", "score": -0.5, "log_prob": -0.75},
            {"text": "der\tHund\u2028", "score": -1.25, "log_prob": -1.5},
        ],
    }
    assert "ü" in renderer("jsonl")(1, [Hypothesis("über", (), 0.0, 0.0)], 1)[0], "text stays readable"


def test_jsonl_has_alignments_and_the_scores_of_tokens():
    found = json.loads(renderer("jsonl")(7, ALIGNED, 2)[0])["hypotheses"]
    assert [one["alignment"] for one in found] == [[[0, 1], [2, 0]], []]
    one = Hypothesis("a b", (5, 6, 1), -0.5, -1.5, tokens=(("a", -0.25), ("b", -1.25), ("</s>", -0.0000001)))
    (found,) = json.loads(renderer("jsonl")(1, [one], 1)[0])["hypotheses"]
    assert found["tokens"] == [["a", -0.25], ["b", -1.25], ["</s>", 0.0]]


def test_jsonl_marks_an_output_that_is_cut():
    (found,) = json.loads(renderer("jsonl")(1, [Hypothesis("a b", (5, 6), -0.5, -1.5, cut=True)], 1)[0])["hypotheses"]
    assert found == {"text": "a b", "score": -0.5, "log_prob": -1.5, "finish_reason": "length"}


@given(st.lists(st.text(), min_size=1, max_size=3), st.sampled_from(sorted(FORMATS)))
def test_no_output_breaks_its_line_or_its_columns(texts, name):
    found = [Hypothesis(text, (), -1.0, -1.0) for text in texts]
    line, _ = renderer(name)(1, found, 3)
    assert not set("\n\r") & set(line)
    if name == "tsv":
        assert line.count("\t") == 8
    if name == "text":
        assert line.count("\t") == len(texts) - 1
    if name == "jsonl":
        assert [one["text"] for one in json.loads(line)["hypotheses"]] == texts


def test_an_unknown_format():
    with refused("'json'", "jsonl", "text", "tsv", "pharaoh", by=UnknownNameError):
        renderer("json")
