"""Every output format gives one line for each input, whatever the model's output."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t.errors import UnknownNameError
from t2t.inference.files.formats import FORMATS, renderer
from t2t.inference.translator import Hypothesis

FOUND = [Hypothesis("ein\nHund\r", (5, 1), -0.5, -0.75), Hypothesis("der\tHund\u2028", (6, 1), -1.25, -1.5)]
ALIGNED = [
    Hypothesis("ein Hund", (5, 6, 1), -0.5, -0.75, alignment=((0, 1), (2, 0))),
    Hypothesis("", (1,), -1.0, -1.0, alignment=()),
]


def test_text_is_the_best_output():
    assert renderer("text")(7, FOUND[:1], 1) == ("ein Hund ", 1)
    assert renderer("text")(7, FOUND[1:], 1) == ("der\tHund\u2028", 0)


def test_text_of_several_is_separated_by_tabs_that_stand_in_none_of_them():
    assert renderer("text")(7, FOUND, 2) == ("ein Hund \tder Hund\u2028", 2)


def test_tsv_has_three_columns_for_each_output_filled_or_not():
    line, replaced = renderer("tsv")(7, FOUND, 3)
    assert line == "ein Hund \t-0.500000\t-0.750000\tder Hund\u2028\t-1.250000\t-1.500000\t\t\t"
    assert replaced == 2


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


def test_alignments_stand_beside_each_output():
    assert renderer("text")(7, ALIGNED[:1], 1) == ("ein Hund ||| 0-1 2-0", 0)
    assert renderer("text")(7, ALIGNED, 2) == ("ein Hund ||| 0-1 2-0\t ||| ", 0)
    expected = "ein Hund\t-0.500000\t-0.750000\t0-1 2-0\t\t-1.000000\t-1.000000\t\t\t\t\t"
    assert renderer("tsv")(7, ALIGNED, 3) == (expected, 0)
    found = json.loads(renderer("jsonl")(7, ALIGNED, 2)[0])["hypotheses"]
    assert [one["alignment"] for one in found] == [[[0, 1], [2, 0]], []]


def test_pharaoh_is_alignments_alone():
    assert renderer("pharaoh")(7, ALIGNED, 2) == ("0-1 2-0\t", 0)
    assert renderer("pharaoh")(7, ALIGNED[1:], 1) == ("", 0)


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
    with pytest.raises(
        UnknownNameError, match=r"'json' does not exist; did you mean jsonl.*one of text, tsv, jsonl, pharaoh"
    ):
        renderer("json")


def test_jsonl_has_the_scores_of_tokens():
    one = Hypothesis("a b", (5, 6, 1), -0.5, -1.5, tokens=(("a", -0.25), ("b", -1.25), ("</s>", -0.0000001)))
    found = json.loads(renderer("jsonl")(1, [one], 1)[0])["hypotheses"]
    assert found[0]["tokens"] == [["a", -0.25], ["b", -1.25], ["</s>", 0.0]]
