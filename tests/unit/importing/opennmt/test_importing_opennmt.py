"""Models of OpenNMT-py and Eole: the same probabilities as an independent network, and errors."""

import json
import sys
import types

import numpy as np
import pytest

from t2t.checkpoints.averaging import average
from t2t.errors import UserError
from t2t.importing.formats import ImportRequest
from t2t.importing.run import import_run
from t2t.runs.loading import load
from tests.builders import numpy
from tests.reference.encoder_decoder import SOURCE, TARGET, Network
from tests.reference.token_toolkits import SPECIAL, write_eole, write_opennmt_py

TOKENS = ([*SPECIAL, *SOURCE], [*SPECIAL, *TARGET])
SHARED = ([*SPECIAL, *SOURCE, *TARGET],) * 2
SIZES = tuple(map(len, TOKENS))
PAIRS = [("the old dog runs", "der alt Hund läuft"), ("a zebra sees", "eine Katze"), ("cat", "zu </s> zu")]
UNKNOWN, START, END = 0, 2, 3


def imported(folder):
    """Imports the model in `folder / "model"` and returns the run and the report."""
    request = ImportRequest(format="opennmt", model_dir=folder / "model", output_dir=folder / "run")
    report = import_run(request)
    return load(request.output_dir), report


def foreign(text, tokens):
    """Returns OpenNMT's ids of the words of a text; words spelt like special tokens are unknown."""
    return [tokens.index(word) if word in tokens[4:] else UNKNOWN for word in text.split(" ")]


def check(loaded, network, tokens):
    """Compares the log-probabilities of targets, encoded separately by our encoders and by OpenNMT's ids."""
    for source, target in PAIRS:
        theirs = [foreign(source, tokens[0]), [*foreign(target, tokens[1]), END]]
        expected_T = network.log_probs(*theirs, START)[range(len(theirs[1])), theirs[1]]
        encoders = loaded.problem.encoders
        ids = [[*encoders[name].encode(text), 1] for name, text in (("inputs", source), ("targets", target))]
        batch = {"inputs": np.array([[*ids[0], 0]], np.int32), "targets": np.array([ids[1]], np.int32)}
        found_T = numpy(loaded.model.score_targets(batch).log_probs)[0]
        np.testing.assert_allclose(found_T, expected_T, atol=1e-5)


NETWORKS = {
    "plain": ({"attention_bias": False, "ffn_bias": False}, {}),
    "gates, RMS norms and other sinusoids": (
        {"gated": True, "rms": True, "activation": "silu", "positions": "concat", "epsilon": 1e-3},
        {"pos_ffn_activation_fn": "silu"},
    ),
    "relative positions": ({"positions": "", "activation": "gelu"}, {"pos_ffn_activation_fn": "gelu"}),
}


@pytest.mark.parametrize(("settings", "opt"), NETWORKS.values(), ids=NETWORKS)
def test_the_network_of_opennmt_py_is_the_same(tmp_path, monkeypatch, settings, opt):
    network = Network(SIZES, **settings)
    write_opennmt_py(tmp_path / "model", network, monkeypatch, TOKENS, opt)
    loaded, report = imported(tmp_path)
    check(loaded, network, TOKENS)
    assert "ids of inputs: padding 1, end of sequence 3 and unknown 0 became 0, 1 and 2" in report.lines()
    assert "ids of targets: padding 2, end of sequence 3 and unknown 0 became 0, 1 and 2" in report.lines()
    assert loaded.hparams.layer_prepostprocess_dropout == loaded.hparams.relu_dropout == 0.3
    check_search(loaded.hparams)


def check_search(hparams):
    """Compares with the defaults of OpenNMT-py 3 and Eole: 5 beams, and scores that are means over the length."""
    assert (hparams.beam_size, hparams.length_penalty, hparams.alpha) == (5, "power", 1.0)


def test_one_vocabulary_and_one_table(tmp_path, monkeypatch):
    network = Network((len(SHARED[0]),) * 2, one_table=True)

    def version_2(state):
        state["generator"] = {f"0.{name}": array for name, array in state["generator"].items()}

    write_opennmt_py(tmp_path / "model", network, monkeypatch, SHARED, edit=version_2)
    loaded, report = imported(tmp_path)
    check(loaded, network, SHARED)
    assert loaded.problem.spec().shared_vocabulary
    assert report.run.weights.keys().isdisjoint({"source_embedding/table", "output_embedding/table"})


@pytest.mark.parametrize("one_table", [False, True])
def test_the_network_of_eole_is_the_same(tmp_path, one_table):
    tokens = SHARED if one_table else TOKENS
    settings = {"gated": True, "activation": "silu", "one_table": one_table, "epsilon": 1e-5}
    network = Network(tuple(map(len, tokens)), **settings)
    write_eole(tmp_path / "model", network, tokens, {"mlp_activation_fn": "gated-silu"}, one_table)
    loaded, _ = imported(tmp_path)
    check(loaded, network, tokens)
    check_search(loaded.hparams)


def test_attention_biases_that_only_some_maps_have(tmp_path):
    """The checkpoint can also be averaged with later ones of the run, whose weights are the model's."""
    network = Network(SIZES)
    for layer in network.layers["encoder"] + network.layers["decoder"]:
        for maps in (layer[name] for name in ("self", "cross") if name in layer):
            maps["out"] = (maps["out"][0], None)
    write_eole(tmp_path / "model", network, TOKENS)
    loaded, report = imported(tmp_path)
    check(loaded, network, TOKENS)
    later = {variable.path.partition("/")[2]: np.asarray(variable) for variable in loaded.model.variables}
    mean = average([("step-0", report.run.weights), ("step-9", later)])
    assert mean.keys() == later.keys()
    np.testing.assert_array_equal(mean["encoder/layer_0/self_attention/output/bias"], 0)


def part(name, **changes):
    def edit(state):
        values = state[name] if isinstance(state[name], dict) else vars(state[name])
        values.update(changes)

    return edit


class Field:
    """Like torchtext's `Field`, which older vocabularies consist of."""


Field.__module__ = "torchtext.data.field"


def with_field(state):
    state["vocab"]["src"] = Field


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (part("opt", decoder_type="rnn", copy_attn=True), r"decoder_type='rnn' \(known: 'transformer'\); copy_"),
        (part("opt", max_relative_positions=-1), r"has position_encoding=True and max_relative_positions=-1; "),
        (part("opt", heads="2"), r"its settings have heads='2', which is no whole number; get it again"),
        (part("vocab", src=None), r"its vocabulary of src is no list of tokens; save it by OpenNMT-py 3"),
        (part("vocab", src_feats=[["a"]]), r"its inputs have features besides words \(src_feats\)"),
        (part("vocab", decoder_start_token="</s>"), r"its decoder begins with '</s>' and its outputs end with '</s>'"),
        (part("vocab", tgt=SPECIAL), r"its table of targets has 12 rows, its vocabulary 4 tokens; get all files again"),
        (part("model", extra=np.zeros(3, np.float32)), r"it has 1 tensors that the model here has no place for: ext"),
        (part("model", extra=3), r"extra is no tensor; get it again"),
        (lambda state: state.pop("generator"), r"it has no generator, as files of OpenNMT-py with weights have"),
    ],
)  # fmt: skip
def test_another_model_is_refused(tmp_path, monkeypatch, edit, said):
    write_opennmt_py(tmp_path / "model", Network(SIZES), monkeypatch, TOKENS, edit=edit)
    with pytest.raises(UserError, match=said):
        imported(tmp_path)
    assert not (tmp_path / "run").exists()


def test_a_vocabulary_of_torchtext_is_refused_by_name(tmp_path, monkeypatch):
    module = types.ModuleType("torchtext")
    module.Field = Field
    for name in ("torchtext", "torchtext.data", "torchtext.data.field"):
        monkeypatch.setitem(sys.modules, name, module)
    write_opennmt_py(tmp_path / "model", Network(SIZES), monkeypatch, TOKENS, edit=with_field)
    with pytest.raises(
        UserError, match=r"it asks for torchtext.data.field.Field, .*; save it by OpenNMT-py 3, whose voc"
    ):
        imported(tmp_path)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"parallel_residual": True}, r"describes another network than those here: parallel_residual=True"),
        ({"embeddings": {"position_encoding_type": "Rotary"}}, r"position_encoding_type='Rotary' \(known: 'Sinusoidal"),
        ({"encoder": None}, r"it has no encoder and decoder; it cannot be imported"),
    ],
)
def test_another_network_of_eole_is_refused(tmp_path, model, said):
    write_eole(tmp_path / "model", Network(SIZES), TOKENS, model)
    with pytest.raises(UserError, match=said):
        imported(tmp_path)


def test_folders_without_one_model(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    with pytest.raises(UserError, match=r"0 files \*.pt there and no config.json; name a folder with one model of Op"):
        imported(tmp_path)
    (tmp_path / "model/config.json").write_text(json.dumps({"model": {"encoder": {"a": 1}, "decoder": {"a": 1}}}))
    (tmp_path / "model/vocab.json").write_text("{}")
    with pytest.raises(UserError, match=r"no model.00.safetensors there; copy all files of the model"):
        imported(tmp_path)
