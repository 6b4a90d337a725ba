"""Graphs of ONNX, run as their README says, write what the run writes; what cannot be converted is said by name."""

import json

import numpy as np
import pytest

from t2t.errors import UserError
from t2t.export.job import ExportJob, Trial
from t2t.export.made_inputs import make_inputs
from t2t.export.onnx_graphs import OnnxExport
from t2t.export.onnx_script import Model
from t2t.export.parity import ParityError
from t2t.hparams.lstm import LstmHParams
from t2t.models.lstm import LstmSeq2seq
from t2t.models.transformer_encoder import TransformerEncoder
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from tests.letters import TEXTS, WORDS, letters, letters_alone, moods, translator_of
from tests.readme import blocks, execute

pytestmark = pytest.mark.slow

MODERN = {
    "positions": "rotary", "num_kv_heads": 1, "gated_feed_forward": True, "norm_type": "rms", "norm_position": "pre",
}  # fmt: skip
T5 = {
    "positions": "relative_bias", "relative_bias_buckets": 8, "relative_bias_max_distance": 5, "target_start": "pad",
    "feed_forward_bias": False, "activation": "gelu_tanh",
}  # fmt: skip
MODELS = {
    "a Transformer": lambda: translator_of(letters(), norm_position="pre", positions="learned"),
    "a decoder of SSRU": lambda: translator_of(letters(), decoder_layer="ssru"),
    "a language model": lambda: translator_of(letters_alone()),
    "one head": lambda: translator_of(letters(), num_heads=1),
    "relative positions": lambda: translator_of(letters(), positions="relative", max_relative_position=2),
    "T5": lambda: translator_of(letters(), **T5),
    "rotary positions, shared keys, gates, other norms": lambda: translator_of(letters(), **MODERN),
}


def written(translator, folder, n_best=1):
    made = OnnxExport(translator, ExportJob(folder=folder, format="onnx", n_best=n_best))
    made.write(folder)
    return made, Trial(translator.encode(TEXTS), TEXTS)


@pytest.mark.parametrize("build", MODELS.values(), ids=MODELS)
def test_steps_search_as_the_run(build, tmp_path):
    translator = build()
    made, trial = written(translator, tmp_path)
    assert made.verify(tmp_path, trial)["greedy search"].identical == len(TEXTS)
    graphs = json.loads((tmp_path / "graphs.json").read_text())
    assert graphs["begin.onnx"]["inputs"] == ["inputs"]
    assert graphs["step.onnx"]["inputs"][:2] == ["ids", "position"]
    script = Model(tmp_path)
    expected = translator.translate(TEXTS, decode_method="greedy")
    assert [script.translate(text) for text in TEXTS] == [found.text for (found,) in expected]
    assert script.translate(" ") == "" or not translator.has_inputs


def test_classes_are_those_of_the_run(tmp_path):
    translator = translator_of(moods(), TransformerEncoder)
    made, trial = written(translator, tmp_path, n_best=3)
    assert made.verify(tmp_path, trial)["answers"].identical == len(TEXTS)
    assert [Model(tmp_path).translate(text) for text in TEXTS] == [
        found.text for (found,) in translator.translate(TEXTS)
    ]


def test_images_are_answered_as_the_readme_shows(tmp_path):
    targets = FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=WORDS.vocab_size)
    image = FeatureSpec(kind=FeatureKind.IMAGE, shape=(3, 4, 1))
    translator = translator_of(letters(), spec=ProblemSpec(name="l", features={"inputs": image, "targets": targets}))
    made = OnnxExport(translator, ExportJob(folder=tmp_path, format="onnx"))
    made.write(tmp_path)
    made.verify(tmp_path, Trial(make_inputs(translator, 2), None))
    readme = tmp_path / "README.md"
    readme.write_text(made.usage())
    (shown,) = blocks(readme)
    (tmp_path / "elsewhere").mkdir()
    done = execute(shown.language, shown.text, tmp_path / "elsewhere")
    assert done.returncode == 0, done.stderr
    ((found,),) = translator.translate_ids([np.zeros((3, 4, 1), np.uint8)], decode_method="greedy", alpha=0.0)
    assert done.stdout.startswith(f"{found.ids} ")
    with pytest.raises(ValueError, match="the inputs of this model are arrays"):
        Model(tmp_path).translate("a")


@pytest.mark.exhaustive
def test_weights_that_are_not_the_runs_are_found_out(tmp_path):
    translator = translator_of(letters())
    made, trial = written(translator, tmp_path)
    table = translator.model.target_embedding.table
    table.assign(table.numpy()[::-1])
    with pytest.raises(ParityError, match=r"greedy search: . of 6 outputs are those of the run"):
        made.verify(tmp_path, trial)


def test_what_the_converter_does_not_manage_is_said_by_name(tmp_path, monkeypatch):
    import tf2onnx

    def fails(*arguments, **settings):
        raise ValueError("Tensorflow op\n [Odd: Odd] is not supported")

    monkeypatch.setattr(tf2onnx.convert, "from_function", fails)
    with pytest.raises(UserError) as raised:
        written(translator_of(letters()), tmp_path)
    assert str(raised.value) == (
        "--format=onnx: the converter does not manage begin.onnx of Transformer: ValueError: Tensorflow op [Odd: Odd] "
        "is not supported; use saved_model"
    )


def test_operations_that_the_converter_leaves_as_they_are_are_found_before_anything_is_kept(tmp_path):
    """Of an LSTM over a sequence, lists of tensors are left in the graph, and nobody complains."""
    with pytest.raises(UserError, match=r"the converter does not manage begin.onnx of LstmSeq2seq: .*TensorList"):
        written(translator_of(letters(), LstmSeq2seq, LstmHParams(hidden_size=8, num_hidden_layers=1)), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.exhaustive
def test_a_graph_that_fails_is_no_answer(tmp_path):
    made, trial = written(translator_of(letters()), tmp_path)
    graphs = json.loads((tmp_path / "graphs.json").read_text())
    graphs["begin.onnx"]["outputs"][0] = "nothing"
    (tmp_path / "graphs.json").write_text(json.dumps(graphs))
    with pytest.raises(ParityError, match=r"it fails where the run answers \(.*nothing.*\); the export is not kept"):
        made.verify(tmp_path, trial)
