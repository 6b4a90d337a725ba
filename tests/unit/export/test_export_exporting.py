"""What is the same for all formats of exports."""

import logging

import pytest

from t2t.export import exporting
from t2t.export.job import Export, ExportJob
from t2t.specs.constraints.finite import ANYTHING
from tests.letters import TEXTS, WORDS, Letters, letters, translator_of


class Anything(Letters):
    """Letters, with a constraint."""

    def constraint(self, source):
        return ANYTHING


class Network(Export):
    """A format without a search of its own, and without contents."""

    def write(self, folder):
        pass

    def verify(self, folder, trial):
        return {}

    def usage(self):
        return "None."


class Search(Network):
    """A format that keeps outputs to those that are allowed."""

    keeps_constraints = True


def constrained():
    return Anything().with_encoders({"inputs": WORDS, "targets": WORDS})


@pytest.mark.parametrize(
    ("format_class", "problem", "decoding", "lines"),
    [
        (Network, constrained, {}, 1),
        (Network, constrained, {"constrain_output": False}, 0),
        (Network, letters, {}, 0),
        (Search, constrained, {}, 0),
    ],
)
def test_an_export_that_drops_the_problems_constraint_says_so(
    format_class, problem, decoding, lines, tmp_path, monkeypatch, caplog
):
    caplog.set_level(logging.INFO, "t2t")
    monkeypatch.setitem(exporting.EXPORTS, "onnx", format_class)
    job = ExportJob(folder=tmp_path / "onnx", format="onnx")
    exporting.export(translator_of(problem(), decoding=decoding), job, TEXTS)
    said = "--format=onnx: the export may write outputs that letters does not allow, as with constrain_output=false"
    assert caplog.text.count(said) == lines


def test_only_saved_models_keep_constraints():
    assert [name for name, made in exporting.EXPORTS.items() if made.keeps_constraints] == ["saved_model"]
