"""Models of OpenNMT-py, Eole, OpenNMT-tf and Sockeye 3: the probabilities of an independent network, and errors."""

import sys
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from t2t.checkpoints.averaging import average
from t2t.formats.yaml import parse_nested_settings
from tests.errors import refused
from tests.reference import t5
from tests.reference.encoder_decoder import LONGEST, SOURCE, TARGET, WIDTH, Network
from tests.reference.token_toolkits import (
    OPENNMT_TF,
    SPECIAL,
    write_eole,
    write_opennmt_py,
    write_opennmt_tf,
    write_sockeye,
)
from tests.unit.formats.imports import check_words

PAIRS = [("the old dog runs", "der alt Hund läuft"), ("a zebra sees", "eine Katze"), ("cat", "zu </s> zu")]
TABLE = np.random.default_rng(3).normal(0, 0.5, (LONGEST, WIDTH))
CATALOGUE = 'from opennmt import models\nmodel = lambda: models.get_model_from_catalog("TransformerTiny")\n'


def own(heads="num_heads=2", **settings):
    """Returns a model description of OpenNMT-tf with a custom class, by default with two heads."""
    given = "".join(f", {name}={value}" for name, value in settings.items())
    return (
        "import opennmt\nimport tensorflow as tf\n\n\nclass Own(opennmt.models.Transformer):\n"
        f"    def __init__(self):\n        super().__init__(\n            num_layers=2, num_units=8, {heads}"
        f"{given}\n        )\n\n\nmodel = Own\n"
    )


def _write_opennmt_tf(folder, network, tokens, monkeypatch, shared, description=CATALOGUE, table=None, settings=()):
    network.scale = np.sqrt(WIDTH)  # whatever its positions are
    network.waves = network.waves if table is None else table
    write_opennmt_tf(folder, network, tokens, description, settings, table, shared)


class Toolkit(NamedTuple):
    """How a toolkit writes models, and what is expected of all of them."""

    format: str
    special: list[str]
    """Tokens before the words."""
    write: Callable[..., None]
    """Takes folder, network, tokens, a monkeypatch, whether tables are shared, and the contents of files by name."""
    network: dict[str, Any]
    """Settings of networks."""
    ids: dict[str, Any]
    """Ids that it gives to words: arguments of `check_words`."""
    hparams: dict[str, Any]
    """Hparams of imported runs: settings of the search, rates of dropout."""


SEARCH = {"beam_size": 5, "length_penalty": "power", "alpha": 1.0}
"""By default 5 beams, and scores that are means over the length."""
DROPOUTS = ("layer_prepostprocess_dropout", "relu_dropout")
OPENNMT_PY = Toolkit(
    "opennmt", SPECIAL, lambda f, n, t, m, _, **files: write_opennmt_py(f, n, m, t, **files), {},
    {"start": 2, "end": 3, "unknown": 0, "ends_inputs": False}, SEARCH | dict.fromkeys(DROPOUTS, 0.3),
)  # fmt: skip
EOLE = OPENNMT_PY._replace(
    write=lambda f, n, t, _, shared, **files: write_eole(f, n, t, **files, one_table=shared), hparams=SEARCH
)
TF = Toolkit(
    "opennmt_tf", OPENNMT_TF, _write_opennmt_tf, {"positions": "concat", "first_position": 1, "epsilon": 1e-3},
    {"start": 1, "end": 2, "ends_inputs": False}, {},
)  # fmt: skip
SOCKEYE = Toolkit(
    "sockeye", ["<pad>", "<unk>", "<s>", "</s>"], lambda f, n, t, m, _, **files: write_sockeye(f, n, m, t, **files),
    {"attention_bias": False, "positions": "halves"}, {"start": 2, "end": 3, "unknown": 1},
    dict(zip(DROPOUTS, (0.2, 0.1), strict=True)),
)  # fmt: skip


@pytest.fixture
def make(importing, monkeypatch):
    """Returns a function that writes a model; it returns the import, the network and the tokens of both sides."""

    def make(toolkit, network=(), files=(), shared=False, change=lambda network: None):
        words = [SOURCE + TARGET] * 2 if shared else [SOURCE, TARGET]
        tokens = [[*toolkit.special, *of_side] for of_side in words]
        sizes = tuple(len(of_side) + (toolkit.format == TF.format) for of_side in tokens)
        made = Network(sizes, **{**toolkit.network, **dict(network), "one_table": shared})
        change(made)
        model = importing(toolkit.format)
        toolkit.write(model.model, made, tokens, monkeypatch, shared, **dict(files))
        return model, made, tokens

    return make


def version_2(state):
    state["generator"] = {f"0.{name}": array for name, array in state["generator"].items()}


GATED = {"gated": True, "activation": "silu", "epsilon": 1e-5}
ENDS = ("  source_sequence_controls:", "    start: false", "    end: true")
POSITIONS = "opennmt.layers.PositionEmbedder"
NETWORKS = {
    "OpenNMT-py": (OPENNMT_PY, {"attention_bias": False, "ffn_bias": False}, {}),
    "OpenNMT-py, gates, RMS norms and other sinusoids": (
        OPENNMT_PY, GATED | {"rms": True, "positions": "concat", "epsilon": 1e-3},
        {"opt": {"pos_ffn_activation_fn": "silu"}},
    ),
    "OpenNMT-py, relative positions": (
        OPENNMT_PY, {"positions": "", "activation": "gelu"}, {"opt": {"pos_ffn_activation_fn": "gelu"}},
    ),
    "OpenNMT-py 2, one table": (OPENNMT_PY, {}, {"edit": version_2}),
    "Eole, a decoder of other sizes": (
        EOLE, GATED | {"decoder": (4, 20)}, {"model": {"mlp_activation_fn": "gated-silu"}},
    ),
    "Eole, one table": (EOLE, GATED, {"model": {"mlp_activation_fn": "gated-silu"}}),
    "OpenNMT-tf, one table, norms behind, inputs with an end": (
        TF._replace(ids=TF.ids | {"ends_inputs": True}, hparams={"layer_prepostprocess_dropout": 0.3}),
        {"pre_norm": False}, {"description": own(pre_norm=False, dropout=0.3), "settings": ENDS},
    ),
    "OpenNMT-tf, learned positions": (
        TF, {"activation": "gelu"},
        {"table": TABLE, "description": own(ffn_activation="tf.nn.gelu", position_encoder_class=POSITIONS)},
    ),
    "OpenNMT-tf, relative positions without biases": (
        TF, {"positions": "", "attention_bias": False},
        {"description": own(position_encoder_class=None, maximum_relative_position=3, mha_bias=False)},
    ),
    "Sockeye, a decoder of other sizes": (SOCKEYE, {"decoder": (4, 20)}, {}),
    "Sockeye, norms behind, one table": (SOCKEYE, {"pre_norm": False, "activation": "silu"}, {"act_type": "swish1"}),
    "Sockeye, gates and SSRUs": (
        SOCKEYE, {"gated": True, "activation": "gelu", "ssru": True},
        {"act_type": "gelu", "use_glu": "true", "decoder_type": "ssru_transformer"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_the_network_is_the_same(make, name):
    toolkit, settings, files = NETWORKS[name]
    model, network, tokens = make(toolkit, settings, files, shared="one table" in name)
    translator, read = model.build()
    check_words(translator, network, tokens, PAIRS, **toolkit.ids)
    assert {name: getattr(read.hparams, name) for name in toolkit.hparams} == toolkit.hparams
    assert read.problem.spec().shared_vocabulary == ("one table" in name)
    assert ("output_embedding/table" in read.weights) != ("one table" in name)
    if toolkit is SOCKEYE:
        positions = {f"{side}.pos_embedding.weight" for side in ("encoder", "decoder")}
        assert read.unused.keys() == positions | {"length_ratio.layers.0.bias"}


@pytest.mark.parametrize(("weight", "expected"), [(0.1, (1, 1)), (0.0, (0, 0))])
@pytest.mark.parametrize("toolkit", [OPENNMT_PY, EOLE])
def test_alignments_are_those_of_heads_that_were_trained_for_them(make, toolkit, weight, expected):
    settings = {"lambda_align": weight, "alignment_layer": -2, "alignment_heads": 1}
    files = {"opt": settings} if toolkit is OPENNMT_PY else {"model": {"decoder": settings}}
    model, *_ = make(toolkit, files=files)
    hparams = model.read().hparams
    assert (hparams.alignment_layer, hparams.alignment_head) == expected


@pytest.mark.parametrize(
    ("toolkit", "inputs", "targets"),
    [
        (OPENNMT_PY, "padding 1, end of sequence 3 and unknown 0", "padding 2, end of sequence 3 and unknown 0"),
        (TF, "padding 0, end of sequence 2 and unknown 10", "padding 1, end of sequence 2 and unknown 11"),
    ],
)
def test_a_run_that_is_written_has_the_network_and_the_settings(make, toolkit, inputs, targets):
    settings = ("params:", "  beam_width: 5", "  length_penalty: 0.2", "  label_smoothing: 0.1")
    model, network, tokens = make(toolkit, files={"settings": settings} if toolkit is TF else {})
    loaded, report = model(**{"step": 7} if toolkit is TF else {})
    check_words(loaded, network, tokens, PAIRS, **toolkit.ids)
    assert {
        f"ids of inputs: {inputs} became 0, 1 and 2", f"ids of targets: {targets} became 0, 1 and 2"
    } < {*report.lines()}  # fmt: skip
    if toolkit is TF:
        assert "problem text2text_files, model transformer_bart, update 0, without Adam's moments" in report.lines()[0]
        assert "checkpoint: update 7 of the original; training starts at 0" in report.lines()
        hparams = loaded.hparams
        assert (hparams.input_end, hparams.beam_size, hparams.alpha, hparams.label_smoothing) == (False, 5, 0.2, 0.1)


def test_attention_biases_that_only_some_maps_have(make):
    """The checkpoint can also be averaged with later ones of the run, whose weights are the model's."""

    def without_output_biases(network):
        for layer in network.layers["encoder"] + network.layers["decoder"]:
            for maps in (layer[name] for name in ("self", "cross") if name in layer):
                maps["out"] = (maps["out"][0], None)

    model, network, tokens = make(EOLE, change=without_output_biases)
    translator, read = model.build()
    check_words(translator, network, tokens, PAIRS, **EOLE.ids)
    later = {variable.path.partition("/")[2]: np.asarray(variable) for variable in translator.model.variables}
    mean = average([("step-0", read.weights), ("step-9", later)])
    assert mean.keys() == later.keys()
    np.testing.assert_array_equal(mean["encoder/layer_0/self_attention/output/bias"], 0)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (("  source_tokenization:", "    type: OpenNMTTokenizer", "    params:", "      mode: aggressive",
          "  target_tokenization: tok.yml"),
         "source_tokenization (OpenNMTTokenizer) and target_tokenization (tok.yml)"),
        (("  target_tokenization:", "    mode: space"), "target_tokenization (OpenNMTTokenizer)"),
        (("  source_tokenization:", "    type: SpaceTokenizer", "  target_tokenization:"), None),
    ],
)  # fmt: skip
def test_tokenizers_of_texts_are_not_imported_unless_there_is_a_sentencepiece_model(make, settings, named):
    model, *_ = make(TF, files={"settings": settings})
    assert [str(named) in text for text in model.read().warnings] == [True] * bool(named)
    t5.write_model(model.folder / "other")
    assert not model.read(sentencepiece_models=(model.folder / "other/spiece.model",)).warnings


def test_settings_of_sockeye_are_read_as_names_and_values():
    text = "!A\na: !B\n  b: -3\n  c: 1.5e-05\n  d: null\n  list:\n  - !!python/tuple\n    - 8\n  e: 'x y'\n"
    text += "f: true  # a note\n  # g: 1\n"
    assert parse_nested_settings(text) == {
        "a": None, "a.b": -3, "a.c": 1.5e-05, "a.d": None, "a.list": None, "a.e": "x y", "f": True
    }  # fmt: skip
    with refused("a", 2, by=ValueError):
        parse_nested_settings("a: 1\na: 2\n")


# === Errors ===
def part(name, **changes):
    """Changes a part of OpenNMT-py's file."""

    def edit(state):
        values = state[name] if isinstance(state[name], dict) else vars(state[name])
        values.update(changes)

    return {"edit": edit}


def line(old, new, times=-1):
    """Changes the text of Sockeye's settings."""
    return {"edit": lambda text: text.replace(old, new, times)}


SCALAR = "decoder.transformer_layers.1.layer_scalar"


class Field:
    """Like torchtext's `Field`, which older vocabularies consist of."""


Field.__module__ = "torchtext.data.field"


@pytest.mark.parametrize(
    ("toolkit", "files", "named"),
    [
        (OPENNMT_PY, part("opt", decoder_type="rnn", copy_attn=True), ["decoder_type='rnn'", "copy_attn="]),
        (OPENNMT_PY, part("opt", max_relative_positions=-1), ["position_encoding=True", "max_relative_positions=-1"]),
        (OPENNMT_PY, part("opt", heads="2"), ["heads='2'"]),
        (OPENNMT_PY, part("vocab", src=None), ["src"]),
        (OPENNMT_PY, part("vocab", src_feats=[["a"]]), ["src_feats"]),
        (OPENNMT_PY, part("vocab", decoder_start_token="</s>"), ["'</s>'"]),
        (OPENNMT_PY, part("vocab", tgt=SPECIAL), [12, 4]),
        (OPENNMT_PY, part("vocab", src=Field), ["torchtext.data.field.Field"]),
        (OPENNMT_PY, part("model", extra=np.zeros(3, np.float32)), [1, "extra"]),
        (OPENNMT_PY, part("model", extra=3), ["extra"]),
        (OPENNMT_PY, part("model", **{SCALAR: np.full(1, 2, np.float32)}), [SCALAR]),
        (OPENNMT_PY, {"edit": lambda state: state.pop("generator")}, ["generator"]),
        (EOLE, {"model": {"parallel_residual": True}}, ["parallel_residual=True"]),
        (EOLE, {"model": {"embeddings": {"position_encoding_type": "Rotary"}}}, ["position_encoding_type='Rotary'"]),
        (EOLE, {"model": {"encoder": None}}, ["encoder", "decoder"]),
        (TF, {"settings": ("params:", "  beam_width: much")}, ["beam_width='much'"]),
        (TF, {"settings": ("params:", "  length_penalty: much")}, ["length_penalty='much'"]),
        (TF, {"settings": ("params:", "  label_smoothing: much")}, ["label_smoothing='much'"]),
        (TF, {"settings": (ENDS[0], "    start: true")}, ["data.yml", "source_sequence_controls"]),
        (TF, {"description": own(heads="num_heads=HEADS")}, ["num_heads=HEADS"]),
        (TF, {"description": own(ffn_activation="tf.tanh")}, ["ffn_activation=tf.tanh", "tf.nn.relu"]),
        (TF._replace(network={"positions": ""}), {"description": own()}, ["sinusoids;"]),
        (
            TF._replace(network={"positions": ""}),
            {"table": TABLE, "description": own(position_encoder_class=POSITIONS)},
            ["ckpt-7", "table"],
        ),
        (SOCKEYE._replace(special=["<s>", "<unk>", "<s>", "</s>"]), {}, ["vocab.src.0.json", "10"]),
        (SOCKEYE._replace(special=["<s>", "<unk>", "<pad>", "</s>"]), {}, ["vocab.src.0.json", "'<s>"]),
        (SOCKEYE, line("act_type: relu", "act_type: tanh"), ["config_encoder.act_type='tanh'", "'swish1'"]),
        (SOCKEYE, line("type: fixed", "type: learned"), ["config_encoder.positional_embedding_type='learned'"]),
        (SOCKEYE, line("use_lhuc: false", "use_lhuc: true"), ["config_encoder.use_lhuc=True"]),
        (SOCKEYE, line("num_factors: 1", "num_factors: 2"), ["config_embed_source.num_factors=2"]),
        (SOCKEYE, line("attention_heads: 2", "attention_heads: two"), ["config_encoder.attention_heads='two'"]),
        (SOCKEYE, line("preprocess_sequence: n", "preprocess_sequence: nr"), ["preprocess_sequence='nr'"]),
        (SOCKEYE, line("dtype: float32", "dtype: int8"), ["dtype='int8'", "'bfloat16'"]),
        (SOCKEYE, line("lhuc: false\n", "what is this\n"), ["line"]),
        (SOCKEYE, line("model_size: 8", "model_size: 16", 1), ["model_size=8", 16]),
    ],
)
def test_another_network_is_refused(make, monkeypatch, toolkit, files, named):
    module = types.ModuleType("torchtext")
    module.Field = Field
    for name in ("torchtext", "torchtext.data", "torchtext.data.field"):
        monkeypatch.setitem(sys.modules, name, module)
    model, *_ = make(toolkit, files=files)
    model.is_refused(*named)


def swap(name, old, new):
    def edit(model):
        text = (model.model / name).read_text()
        assert old in text
        model.replace(name, text.replace(old, new).encode())

    return edit


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (swap("model_description.py", "TransformerTiny", "LuongAttention"), ["model_description.py"]),
        (swap("model_description.py", "model =", "model = ="), ["model_description.py"]),
        (swap("data.yml", "  source_vocabulary", "  source_1_vocabulary"), ["data.source_vocabulary=None"]),
        (swap("data.yml", "data:", "data"), ["data.yml", "'data'", 3]),
        (swap("data.yml", "src.vocab", "none.vocab"), ["--model_dir=", "none.vocab"]),
        (swap("src.vocab", "<blank>\n<s>", "<s>\n<blank>"), ["src.vocab", "<blank>"]),
        (swap("src.vocab", "the\n", ""), [11, 10]),
        (lambda model: model.replace("other.yml", b""), ["--model_dir=", 2, "*.yml"]),
        (lambda model: model.replace("ckpt-7.index"), ["ckpt-<step>.index"]),
        (lambda model: model.replace("ckpt-7.index", b"no"), ["ckpt-7"]),
    ],
)
def test_files_of_another_model_of_opennmt_tf_are_refused(make, edit, named):
    model, *_ = make(TF)
    edit(model)
    model.is_refused(*named)


@pytest.mark.parametrize(
    ("toolkit", "name", "content", "named"),
    [
        (EOLE, "vocab.json", {"src": SPECIAL, "tgt": {}}, ["vocab.json", "tgt"]),
        (EOLE, "model.00.safetensors", b"no", ["model.00.safetensors"]),
        (TF, "src.vocab", b"\xff", ["data.source_vocabulary", "src.vocab", "UTF-8"]),
        (SOCKEYE, "params.best", b"no", ["params.best"]),
        (SOCKEYE, "vocab.trg.1.json", {}, ["vocab.trg.1.json"]),
    ],
)
def test_files_that_are_damaged_or_of_words_with_factors(make, toolkit, name, content, named):
    model, *_ = make(toolkit)
    model.replace(name, content)
    model.is_refused(*named)


def test_steps_that_are_not_there_and_variables_without_a_weight_are_named(make):
    def with_cross(network):
        encoder, decoder = (network.layers[side][0] for side in ("encoder", "decoder"))
        encoder["cross"], encoder["norms"]["cross"] = decoder["cross"], decoder["norms"]["cross"]

    model, *_ = make(TF, change=with_cross)
    model.is_refused("--step=8", 7, step=8)
    model.is_refused(10, "encoder/layers/0/att")


def test_folders_without_one_model_of_opennmt(importing):
    model = importing("opennmt")
    model.model.mkdir()
    model.is_refused("*.pt", "config.json")
    model.replace("config.json", {"model": {"encoder": {"a": 1}, "decoder": {"a": 1}}})
    model.replace("vocab.json", {})
    model.is_refused("model.00.safetensors")
