"""Exports in general; the axes of LiteRT; made inputs."""

import logging
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from t2t.formats.ctranslate2.write import CTranslate2Export
from t2t.formats.exporter import Export, ExportJob, check_search, needs
from t2t.formats.exporting import MOST_PIECES, example_text, export, make_inputs, make_texts
from t2t.formats.huggingface.write import HuggingFaceExport
from t2t.formats.litert import LiteRtExport, expand_new_axes
from t2t.formats.marian.write import MarianExport
from t2t.formats.onnx import OnnxExport
from t2t.formats.parity import FLOAT32
from t2t.formats.saved_model.write import SavedModelExport
from t2t.hparams.groups import DecodeHParams
from t2t.hparams.transformer_cmlm import TransformerCmlmHParams
from t2t.inference.translator import Translator
from t2t.models.transformer_cmlm import TransformerCmlm
from t2t.models.transformer_encoder import TransformerEncoder
from t2t.registry import EXPORTERS
from t2t.specs.constraints import ANYTHING
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.text.byte import ByteEncoder
from t2t.text.sentencepiece import SentencePieceEncoder
from t2t.text.subword import SubwordEncoder
from tests.builders import tiny_hparams
from tests.errors import refused
from tests.letters import TEXTS, WORDS, Letters, letters, letters_alone, moods, translator_of
from tests.registrations import registered


@pytest.fixture(scope="module")
def network():
    """A translator whose network all exports of this file share."""
    return translator_of(letters())


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


CLASSES = {
    "saved_model": SavedModelExport, "ctranslate2": CTranslate2Export, "marian": MarianExport, "onnx": OnnxExport,
    "huggingface": HuggingFaceExport, "litert": LiteRtExport,
}  # fmt: skip


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
    network, format_class, problem, decoding, lines, tmp_path, caplog
):
    caplog.set_level(logging.INFO, "t2t")
    (tmp_path / "letters").mkdir()
    job = ExportJob(folder=tmp_path / "letters/1", format="my_format")
    with registered(EXPORTERS, "my_format", needs(packages=("json",))(format_class)):
        export(decoding_otherwise(network, problem(), **decoding), job, TEXTS)
    assert (tmp_path / "letters/1/README.md").read_text().startswith("# letters/1\n")
    warnings = [one.getMessage() for one in caplog.records if "constrain_output=false" in one.getMessage()]
    assert len(warnings) == lines
    assert all(one.startswith("--format=my_format: ") and "letters" in one for one in warnings)


def test_a_readme_names_no_folder_of_this_machine(network, tmp_path):
    for name in ("saved_model", "onnx", "ctranslate2", "marian"):
        translator = network if name != "marian" else translator_of(letters(), sinusoid_layout="split")
        made = CLASSES[name](translator, ExportJob(folder=tmp_path / "model", format=name))
        assert str(tmp_path) not in made.usage() + made.front_matter()


def test_only_saved_models_keep_constraints():
    assert [name for name, made in CLASSES.items() if made.keeps_constraints] == ["saved_model"]
    assert [name for name, made in CLASSES.items() if made.search is None] == ["saved_model"]


def decoding_otherwise(translator, problem=None, **decoding):
    """Returns a translator with the same network."""
    hparams = DecodeHParams(**{"extra_length": 5, "beam_size": 3, **decoding})
    return Translator(problem or translator.problem, translator.model, hparams)


@pytest.fixture
def of_format(network):
    """Returns a function that makes an export without contents whose search is that of a format."""

    def make(name, job, **decoding):
        made = type("Made", (Network,), {"search": CLASSES[name].search})
        return made(decoding_otherwise(network, **decoding), ExportJob(folder=Path("new"), format=name, **job))

    return make


@pytest.mark.parametrize(
    ("format", "decoding", "n_best", "about"),
    [
        *((name, {}, 3, "n_best=3 1)") for name in CLASSES if name != "saved_model"),
        ("onnx", {"beam_size": 8, "alpha": 0.5}, 1, "beam_size=8 1), alpha=0.5 0.0)"),
        ("litert", {"decode_method": "beam"}, 2, "n_best=2 1), decode_method=beam greedy)"),
        ("ctranslate2", {"decode_method": "sample"}, 1, "decode_method=sample beam greedy)"),
        ("ctranslate2", {"alpha": 1.0}, 1, "length_penalty=gnmt power)"),
        ("ctranslate2", {"coverage_penalty": 0.5}, 1, "coverage_penalty=0.5 0.0)"),
        ("marian", {"min_output_length": 2}, 1, "min_output_length=2 0)"),
        ("ctranslate2", {"no_repeat_ngram_size": 2}, 1, "no_repeat_ngram_size=2 0)"),
        ("huggingface", {"extra_length": 9}, 1, "extra_length=9"),
    ],
)
def test_what_a_search_of_its_own_does_not_have_is_refused_if_it_is_asked_for(
    of_format, format, decoding, n_best, about
):
    with refused(f"--format={format}:", *about.split()) as error:
        check_search(of_format(format, {"n_best": n_best, "asked": decoding.keys()}, **decoding))
    assert ("saved_model" in str(error.value)) == (decoding.get("decode_method") != "sample")
    check_search(of_format(format, {}, **decoding))


@pytest.mark.parametrize(
    ("format", "decoding"),
    [
        ("saved_model", {"beam_size": 8, "coverage_penalty": 0.5}),
        ("onnx", {"decode_method": "greedy", "extra_length": 9, "alpha": 0.0}),
        ("litert", {"beam_size": 1, "constrain_output": False}),
        ("ctranslate2", {"beam_size": 8, "alpha": 1.0, "length_penalty": "power", "extra_length": 9}),
        ("marian", {"decode_method": "greedy", "eos_penalty": 0.0}),
        ("huggingface", {"alpha": 0.0, "min_output_length": 2, "no_repeat_ngram_size": 3}),
    ],
)
def test_what_a_search_has_may_be_asked_for(of_format, format, decoding):
    check_search(of_format(format, {"asked": [*decoding, "hidden_size"]}, **decoding))


def test_classes_are_no_search():
    translator = translator_of(moods(), TransformerEncoder)
    check_search(CLASSES["onnx"](translator, ExportJob(folder=Path("new"), format="onnx", n_best=3)))


def test_an_export_checks_its_search(network, tmp_path):
    with refused("--format=onnx:", "n_best=3", "1)"):
        export(network, ExportJob(folder=tmp_path / "new", format="onnx", n_best=3), TEXTS)


@pytest.mark.parametrize(
    ("name", "format", "quantization", "inputs", "about"),
    [
        (".", "onnx", FLOAT32, TEXTS, "--export_dir="),
        ("new", "pickle", FLOAT32, TEXTS, "--format=pickle: saved_model onnx"),
        ("new", "onnx", "int8", TEXTS, "--quantization=int8: onnx float32;"),
        ("new", "onnx", FLOAT32, ["", " "], "--parity_file"),
    ],
)
def test_a_request_that_makes_no_sense_writes_nothing(network, name, format, quantization, inputs, about, tmp_path):
    job = ExportJob(folder=tmp_path / name, format=format, quantization=quantization)
    with refused(*about.split()):
        export(network, job, inputs)
    assert not list(tmp_path.iterdir())


def by_mask_predict(network):
    hparams = TransformerCmlmHParams(**dict(tiny_hparams(num_hidden_layers=1).items()))
    return translator_of(letters(), TransformerCmlm, hparams)


def of_pictures(network):
    """A model, for example of a plug-in, whose outputs are neither text nor classes."""
    picture = FeatureSpec(kind=FeatureKind.IMAGE, shape=(2, 2, 1))
    model = SimpleNamespace(spec=ProblemSpec(name="letters", features={"targets": picture}))
    return SimpleNamespace(problem=network.problem, model=model, settings=lambda n_best: (None, None))


@pytest.mark.parametrize(
    ("build", "format", "about"),
    [
        (of_pictures, "saved_model", "--format=saved_model: letters image;"),
        (lambda network: decoding_otherwise(network, decode_method="sample"), "saved_model", "--decode_method=sample:"),
        (lambda network: decoding_otherwise(network, constrained()), "saved_model", "letters: constrain_output=false,"),
        (by_mask_predict, "onnx", "--format=onnx: TransformerCmlm saved_model"),
    ],
)
def test_runs_that_a_format_does_not_hold_are_refused(network, build, format, about, tmp_path):
    with refused(*about.split()):
        export(build(network), ExportJob(folder=tmp_path / "new", format=format), TEXTS)


SLICES = {
    "in front": np.s_[None],
    "within": np.s_[:, None],
    "at the end": np.s_[..., None],
    "two at the end": np.s_[..., None, None],
    "on both sides": np.s_[None, :, None, ..., None],
    "after the ellipsis": np.s_[..., None, :],
    "part of it": np.s_[:, None, 1:],
    "one place of it": np.s_[0, None],
    "every second": np.s_[None, ::2],
    "none new": np.s_[:, 1:],
}
LEFT = {"part of it", "one place of it", "every second", "none new"}
"""Slices that do more than add axes, and are therefore not rewritten."""


def test_axes_are_added_where_the_slice_adds_them(tmp_path):
    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def sliced(x):
        return {name: x[one] for name, one in SLICES.items()}

    tf.saved_model.save(tf.Module(), str(tmp_path), signatures={"sliced": sliced.get_concrete_function()})
    expand_new_axes(tmp_path)
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    found = tf.saved_model.load(str(tmp_path)).signatures["sliced"](tf.constant(x))
    for name, one in SLICES.items():
        np.testing.assert_array_equal(found[name], x[one], err_msg=name)
    saved = SavedModel()
    saved.ParseFromString((tmp_path / "saved_model.pb").read_bytes())
    functions = saved.meta_graphs[0].graph_def.library.function
    slices = [node for function in functions for node in function.node_def if node.op == "StridedSlice"]
    assert len(slices) == len(LEFT)


LINES = ["der Hund läuft über die Straße", "zwei Katzen sitzen im Haus 42"] * 20
ENCODERS = {
    "byte": ByteEncoder,
    "token": lambda: WORDS,
    "subword": lambda: SubwordEncoder.build(LINES, 200),
    "sentencepiece": lambda: SentencePieceEncoder.build(LINES, 300),
}


@pytest.mark.parametrize("kind", ENCODERS)
def test_texts_are_lines_that_the_vocabulary_has_pieces_for(kind):
    encoder = ENCODERS[kind]()
    texts = make_texts(encoder, 100)
    assert len(texts) == 100
    assert len(set(texts)) > 90
    assert all(text.strip() and "\n" not in text and "\0" not in text for text in texts)
    assert texts == make_texts(encoder, 100)
    ids = [token_id for text in texts for token_id in encoder.encode(text)]
    assert len(set(ids)) > min(50, encoder.vocab_size - 4)
    if kind == "token":
        assert 2 not in ids


def test_they_are_as_long_as_the_model_takes():
    translator = translator_of(letters_alone(), decoding={"max_input_length": 4})
    texts = make_inputs(translator, 50)
    assert {len(ids) for ids in translator.encode(texts)} == {1, 2, 3}


def test_an_example_has_no_unknown_word():
    assert 2 not in WORDS.encode(example_text(translator_of(letters())))
    translator = translator_of(letters(ByteEncoder()))
    assert example_text(translator) == "a text"


@pytest.mark.parametrize(
    ("spec", "dtype", "shape"),
    [
        (FeatureSpec(kind=FeatureKind.IMAGE, shape=(3, 4, 1)), np.uint8, (3, 4, 1)),
        (FeatureSpec(kind=FeatureKind.AUDIO, sample_rate=400), np.float32, None),
        (FeatureSpec(kind=FeatureKind.VIDEO, shape=(3, 4, 1)), np.uint8, None),
    ],
    ids=["images", "sound", "clips"],
)
def test_other_inputs_are_arrays_of_the_problems_kind(spec, dtype, shape):
    targets = FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=WORDS.vocab_size)
    translator = translator_of(letters(), spec=ProblemSpec(name="l", features={"inputs": spec, "targets": targets}))
    found = make_inputs(translator, 5)
    assert len(found) == 5
    assert all(one.dtype == dtype for one in found)
    if shape:
        assert all(one.shape == shape for one in found)
    elif spec.kind == FeatureKind.VIDEO:
        assert all(one.shape[1:] == spec.shape and 1 <= len(one) <= MOST_PIECES for one in found)
    else:
        assert all(200 <= len(one) <= 400 and np.abs(one).max() <= 1.0 for one in found)
    assert len({one.tobytes() for one in found}) == 5
