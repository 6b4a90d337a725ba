"""The table of models and formats of exports."""

import pytest

from benchmarks import parity
from benchmarks.parity import FAILED, PASSED, REFUSED, Outcome, table


def test_a_row_has_each_format_and_reasons_stand_below(monkeypatch):
    formats = ("saved_model", "ctranslate2", "onnx")
    monkeypatch.setattr(parity, "FORMATS", formats)
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


@pytest.mark.slow
def test_the_models_of_a_list_are_tried(capsys):
    assert parity.main(["--models=transformer_encoder", "--lines=5"]) == 0
    printed = capsys.readouterr().out
    assert "| `transformer_encoder` | text to class | yes | no | yes |" in printed
    assert "5 of 5 outputs are those of the run" in printed
