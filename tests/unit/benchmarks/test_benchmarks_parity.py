"""The table of models and formats of exports."""

import pytest

from benchmarks import parity
from benchmarks.parity import FAILED, PASSED, REFUSED, Outcome, table, table_of_run


def test_a_row_has_each_format_and_reasons_stand_below():
    formats = ("saved_model", "ctranslate2", "onnx")
    verdicts = {"a": [PASSED, REFUSED, PASSED], "b": [FAILED, REFUSED, PASSED]}
    said = {PASSED: "", REFUSED: "why", FAILED: "bad"}
    found = table(
        [
            Outcome(model, "text to text", format, verdict, said[verdict])
            for model, of_model in verdicts.items()
            for format, verdict in zip(formats, of_model, strict=True)
        ]
    )
    assert found == [
        "| model | problem | saved_model | ctranslate2 | onnx |",
        "|---|---|---|---|---|",
        "| `a` | text to text | yes | no | yes |",
        "| `b` | text to text | FAILED | no | yes |",
        "",
        "- a (text to text), b (text to text): why",
        "- b (text to text): bad",
    ]


def test_sizes_and_times_stand_in_the_table_of_a_run():
    found = table_of_run([Outcome("", "", "a", PASSED, "same", 2.04, 3.0), Outcome("", "", "b", REFUSED, "why")])
    assert found[2:] == ["| a | same | 2.0 | 3.0 |", "| b | why |  |  |"]


@pytest.mark.slow
def test_the_models_of_a_list_are_tried(capsys):
    assert parity.main(["--models=transformer_encoder", "--lines=5", "--formats=saved_model,ctranslate2,onnx"]) == 0
    printed = capsys.readouterr().out
    assert "| `transformer_encoder` | text to class | yes | no | yes |" in printed
    assert "5 of 5 outputs are those of the run" in printed
