"""Hparams that a model of a problem does not read: they change nothing, and new runs that change them are refused."""

import dataclasses

import numpy as np
import pytest

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.run_record import RunRecord
from t2t.registry import HPARAMS, MODELS
from t2t.runs.names import Request, get_hparams, resolve
from t2t.specs.features import FeatureKind, ProblemSpec
from tests.builders import numpy, randomise
from tests.errors import refused
from tests.kinds import SPECS, column
from tests.small_models import NAMES, small_hparams

TOKENS, LABEL = FeatureKind.TOKENS, FeatureKind.LABEL
ENCODER = {"num_encoder_layers": 3, "target_space_embedding": True, "input_end": False}
START = {"target_start": "id", "target_start_id": 5}
OUTPUT = {"output_bias": True, "shared_embedding_and_softmax_weights": False}
CASES = {
    ("transformer", None, TOKENS): ENCODER,
    ("transformer_lm", None, TOKENS): ENCODER,
    ("transformer_moe", None, TOKENS): ENCODER,
    ("transformer_bart", None, TOKENS): ENCODER,
    ("byte_net_lm", None, TOKENS): {"unfolding_factor": 3.0, "unfolding_offset": 2},
    ("multi_model", TOKENS, TOKENS): START,
    ("multi_model", TOKENS, LABEL): START | OUTPUT,
    ("neural_gpu", TOKENS, TOKENS): START,
    ("transformer_mlm", TOKENS, TOKENS): START,
    ("transformer_cmlm", TOKENS, TOKENS): START,
    ("transformer_encoder", TOKENS, LABEL): START | OUTPUT,
}
"""Model, kinds of inputs and targets: all hparams that are unread there, with other values than the default."""


def spec_of(inputs, targets):
    kinds = {"targets": targets} | ({"inputs": inputs} if inputs else {})
    return ProblemSpec(name="kinds", features={name: SPECS[kind] for name, kind in kinds.items()})


def scores(model_class, spec, changes):
    model = randomise(model_class(small_hparams(model_class, changes), spec))
    features = {name: column(feature.kind, len(name)) for name, feature in spec.features.items()}
    return {variable.path for variable in model.variables}, numpy(model.score_targets(features).log_probs)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_hparams_that_are_unread_have_no_effect(case):
    name, *kinds = case
    model_class, spec = MODELS.get(name), spec_of(*kinds)
    assert model_class.unread_hparams(spec).keys() == CASES[case].keys()
    (paths, expected), (same_paths, found) = (scores(model_class, spec, one) for one in ({}, CASES[case]))
    assert paths == same_paths
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("model", "problem", "hparams_set", "overrides", "named"),
    [
        ("transformer_lm", "languagemodel_wikitext2", "transformer_tiny", "num_encoder_layers=3,input_end=false",
         "num_encoder_layers=3 num_encoder_layers=0 input_end=False input_end=true languagemodel_wikitext2"),
        ("byte_net_lm", "languagemodel_wikitext2", "byte_net_lm", "unfolding_factor=3",
         "unfolding_factor=3.0 unfolding_factor=1.2 ByteNetLm"),
        ("multi_model", "translate_ende_numbers", "multi_model_tiny", "target_start=pad",
         "target_start=pad target_start=zero MultiModel"),
        ("neural_gpu", "algorithmic_reverse_binary40_test", "neural_gpu_tiny", "target_start=pad",
         "target_start=pad target_start=zero NeuralGpu"),
        ("transformer_encoder", "sentiment_imdb", "t5_small", "target_start=id,output_bias=true",
         "target_start=id target_start=zero output_bias=True output_bias=false TransformerEncoder sentiment_imdb"),
        ("transformer_moe", "translate_ende_numbers", "transformer_moe_tiny", "expert_layer_step=3,num_experts=8",
         "expert_layer_step=3 2 transformer"),
        ("transformer_cmlm", "translate_ende_numbers", "transformer_cmlm_multi30k_tiny", "self_attention_window=4",
         "self_attention_window=4 self_attention_window=0"),
    ],
)  # fmt: skip
def test_a_new_run_with_them_is_refused_and_a_recorded_one_resumes(
    model, problem, hparams_set, overrides, named, tmp_path
):
    names = {"problem": problem, "model": model, "hparams_set": hparams_set}
    request = Request(**names, output_dir=str(tmp_path / "run"))
    resolve(request)
    with refused(*named.split()):
        resolve(dataclasses.replace(request, overrides=overrides))
    record = RunRecord(**names, overrides=overrides, hparams={}, spec=ProblemSpec(name=problem), problem_options={})
    RunDir.create(request.output_folder, record, {})
    assert resolve(dataclasses.replace(request, overrides=overrides)).hparams.override(overrides)


@pytest.mark.parametrize("name", NAMES)
def test_every_registered_set_may_begin_a_run_of_every_problem(name):
    model_class = MODELS.get(name)
    sets = [hparams for one in HPARAMS.names() if isinstance(hparams := get_hparams(one), model_class.hparams_class)]
    assert sets
    for inputs in model_class.accepts_inputs:
        for targets in model_class.accepts_targets:
            for hparams in sets:
                model_class.check_new(hparams, hparams, spec_of(inputs, targets))
