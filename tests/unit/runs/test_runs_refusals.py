"""Uses that a model, a problem or the data of a run do not allow; nothing is loaded."""

from pathlib import Path
from types import SimpleNamespace as Fake

import pytest

from t2t.inference.engine_choice import EngineChoice
from t2t.inference.fallback import FallbackEngine
from t2t.runs.engine_comparison import compare_engines
from t2t.runs.ensembles import load_ensemble
from t2t.runs.exporting import _trial_inputs, export_run
from t2t.runs.split_decoding import decode_and_score
from t2t.specs.features import FeatureKind
from tests.errors import refused
from tests.letters import letters_alone
from tests.many_runs import SPEC, write_run

PICTURES = Fake(spec=Fake(inputs=Fake(kind=FeatureKind.IMAGE)))
"""Facts of a model that reads pictures."""


def run_of(name, problem="counting", mask_predicts=False, autoregressive=True):
    model = Fake(mask_predicts=mask_predicts, autoregressive=autoregressive)
    return Fake(run=Fake(path=Path(name)), problem=Fake(name=problem, encoders={}), model=model)


@pytest.mark.parametrize(("other", "about"), [
    ({"mask_predicts": True}, ["--output_dir:", "other"]),
    ({"problem": "counting_again"}, ["--output_dir:", "first", "counting", "other", "counting_again"]),
    ({"autoregressive": False}, ["--output_dir:", "first", "other"]),
])  # fmt: skip
def test_runs_that_are_no_ensemble(other, about):
    runs = {"first": run_of("first"), "other": run_of("other", **other)}
    with refused(*about):
        load_ensemble(list(runs), runs.get, "probabilities", EngineChoice())


def test_inputs_with_language_tags_are_exported_in_one_format(tmp_path):
    loaded = Fake(hparams=Fake(shortlist=False), problem=Fake(options=Fake(language_tags="de")))
    with refused("--language_tags=de:", "--format=onnx", "--format=saved_model"):
        export_run(loaded, tmp_path, "onnx", "none", 1, "", 9, "")


@pytest.mark.parametrize(("model", "flags", "about"), [
    (PICTURES, {"parity_file": "lines", "data_dir": ""}, ["--parity_file:", SPEC.name, "--data_dir"]),
    (None, {"parity_file": "", "data_dir": "gone"}, [SPEC.name, "gone", "--parity_file"]),
])  # fmt: skip
def test_inputs_to_compare_an_export_on(model, flags, about, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    loaded = Fake(problem=Fake(name=SPEC.name), run=write_run(tmp_path / "run", 1))
    with refused(*about):
        _trial_inputs(loaded, Fake(model=model), limit=9, **flags)


def test_a_search_that_another_engine_leaves_to_tensorflow_is_not_compared():
    fast = Fake(name="fast", refusal=lambda request: f"beam_size={request}")
    translator = Fake(engine=FallbackEngine(fast, None), request=len)
    with refused("--compare_engine:", "beam_size=3"):
        compare_engines(translator, Fake(inputs=lambda: [[2], [3], [4]]))


def test_a_split_of_a_problem_without_inputs_is_not_decoded():
    problem = letters_alone()
    data, translator = Fake(problem=problem, manifest=Fake(split=str)), Fake(facts=Fake(spec=problem.spec()))
    translator.has_inputs = False
    with refused("dev", "letters_alone:", "t2t-eval"):
        decode_and_score(translator, data, "dev")
