"""Choice of the decoding engine by request, installed packages and support for the model."""

import itertools
import logging
import sys

import pytest

from t2t.checkpoints.checkpoint import Checkpoint
from t2t.checkpoints.dev_outputs import DevOutputs, add_dev_outputs
from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.run_record import RunRecord
from t2t.files.processor import sees_accelerator
from t2t.inference.engine import EngineChoice
from t2t.runs.engines import conversion_of, engine_of, questions, settled, speed_advice
from t2t.specs import EOS_ID
from tests.errors import refused
from tests.letters import TEXTS, letters, sharing, translator_of


@pytest.fixture(scope="module")
def shared():
    return translator_of(letters(), decoding={"decode_method": "greedy"})


@pytest.fixture
def translator(shared):
    yield shared
    shared.engine = shared.model_engine


def chosen(translator, folder, *choice):
    (folder / "checkpoints/step-00000005").mkdir(parents=True, exist_ok=True)
    checkpoint = Checkpoint(5, {}, folder=folder / "checkpoints/step-00000005", fingerprint="abc")
    spec, hparams = translator.model.spec, translator.model.hparams
    record = RunRecord(
        problem="letters", model="transformer", hparams_set="", hparams=hparams.to_dict(), spec=spec, vocabularies={}
    )
    asked, run = EngineChoice(*choice), RunDir(folder, record)
    return engine_of(run, translator, conversion_of(run, "letters", checkpoint, hparams, asked), asked)


@pytest.mark.parametrize("choice", ["ctranslate2", "auto"])
def test_ctranslate2_decodes_where_it_can_and_is_converted_once(choice, translator, tmp_path, caplog):
    caplog.set_level(logging.INFO, "t2t")
    assert chosen(translator, tmp_path) is translator.model_engine, "TensorFlow decodes by default"
    assert not (tmp_path / "cache").exists()
    expected = [found[0].ids for found in translator.translate(TEXTS)]
    for _ in range(2):
        translator.engine = chosen(translator, tmp_path, choice)
        assert translator.engine.name.endswith(" in float32" + ", patience 2" * (choice == "auto"))
        assert [found[0].ids for found in translator.translate(TEXTS)] == expected
    assert caplog.text.count("converting step-00000005 for CTranslate2") == 1
    assert caplog.text.count("64 of 64 outputs are equal") == (choice == "auto"), "compared once, and kept with the run"


def test_a_model_that_it_cannot_hold_is_refused_or_decoded_by_tensorflow(tmp_path, caplog):
    caplog.set_level(logging.INFO, "t2t")
    translator = translator_of(letters(), self_attention_window=4)
    with refused("--engine=ctranslate2", "self_attention_window=4"):
        chosen(translator, tmp_path, "ctranslate2")
    assert chosen(translator, tmp_path, "auto") is translator.model_engine
    assert "self_attention_window=4" in caplog.text


@pytest.mark.parametrize("search", [{"decode_method": "sample"}, {"beam_size": 4, "coverage_penalty": 0.2}], ids=str)
def test_a_run_whose_own_search_it_does_not_have_is_not_converted_by_auto(search, shared, tmp_path, caplog):
    caplog.set_level(logging.INFO, "t2t")
    translator = sharing(shared, **{"decode_method": "beam", **search})
    assert chosen(translator, tmp_path, "auto") is translator.model_engine
    assert len(caplog.messages) == 1
    assert not (tmp_path / "cache").exists()
    assert chosen(translator, tmp_path, "ctranslate2") is not translator.model_engine


def test_without_the_package_auto_is_tensorflow_and_ctranslate2_is_refused(translator, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "t2t")
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert chosen(translator, tmp_path, "auto") is translator.model_engine
    assert "t2t-keras[ctranslate2]" in caplog.text
    with refused("--engine=ctranslate2", "t2t-keras[ctranslate2]"):
        chosen(translator, tmp_path, "ctranslate2")


@pytest.mark.parametrize(("choice", "about"), [
    (("torch",), ["--engine=torch", "tensorflow", "ctranslate2", "auto"]),
    (("auto", "int4"), ["--compute_type=int4", "float32", "int8", "int16", "bfloat16"]),
    (("tensorflow", "int8"), ["--compute_type=int8", "--engine=tensorflow"]),
])  # fmt: skip
def test_what_does_not_go_together_is_said(choice, about):
    with refused(*about):
        EngineChoice(*choice).check()


@pytest.mark.parametrize(("variable", "asked", "expected"), [
    ("", "auto", "auto"),
    ("tensorflow", "auto", "tensorflow"),
    ("tensorflow", "ctranslate2", "ctranslate2"),
    ("auto", "auto", "auto"),
])  # fmt: skip
def test_a_variable_names_what_auto_stands_for(variable, asked, expected, monkeypatch):
    monkeypatch.setenv("T2T_ENGINE", variable)
    assert EngineChoice.requested(asked).engine == expected
    monkeypatch.setenv("T2T_ENGINE", "torch")
    with refused("T2T_ENGINE=torch", "tensorflow", "ctranslate2", "auto"):
        EngineChoice.requested(asked)


@pytest.mark.parametrize(("asked", "devices", "expected"), [
    ("auto", None, "auto"),
    ("auto", (0, 0, 1), "auto"),
    ("auto", (1, 0, 1), "tensorflow"),
    ("auto", (0, 2, 1), "tensorflow"),
    ("ctranslate2", (0, 2, 1), "ctranslate2"),
])  # fmt: skip
def test_auto_leaves_devices_that_are_asked_for_to_tensorflow(asked, devices, expected, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert settled(EngineChoice(asked), devices).engine == expected


@pytest.mark.parametrize(("names", "visible", "expected"), [
    ([], None, False),
    (["null", "nvram", "nvidiactl", "nvidia-uvm"], None, False),
    (["null", "nvidia0", "nvidiactl"], None, True),
    (["nvidia0"], "0", True),
    (["nvidia0"], "", False),
    (["nvidia0", "dxg"], "-1", False),
    (["kfd"], "", True),
    (["accel3"], None, True),
])  # fmt: skip
def test_accelerators_are_seen_by_their_devices(names, visible, expected, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert sees_accelerator(names) == expected


def test_questions_are_kept_sentences_their_beginnings_and_pairs_or_random_ids(shared, tmp_path):
    run = RunDir(tmp_path, None)
    made = questions(run, shared)
    assert [len(made.search_rows), len(made.score_rows), len(made.targets)] == [64, 33, 33]
    assert made == questions(run, shared)
    assert max(map(len, made.score_rows)) == 129, "a long one shows other positions and masks"
    texts = [" ".join(letter * 2) for letter in "abcdefgh"] + ["a b c", "d e f", "c a b", "f e h"]
    for step, kept in ((1, texts[:-2]), (2, texts)):
        add_dev_outputs(run.dev_outputs_file, [DevOutputs(step, "", tuple(kept), tuple(kept), tuple(kept))])
        asked = questions(run, shared).search_rows
        if step == 1:
            assert asked == made.search_rows, "too few"
    expected = [
        *texts,
        *"abcdefgh",
        "a b",
        "d e",
        "c a",
        "f e",
        *(" ".join(pair) for pair in itertools.pairwise(texts)),
    ]
    assert asked == [[*ids, EOS_ID] for ids in shared.encode(dict.fromkeys(expected))]


def test_what_a_missing_ctranslate2_would_have_saved_is_said_after_long_jobs_that_it_supports(shared, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    auto = EngineChoice("auto")
    assert "50 of 100 s" in speed_advice(auto, shared, 100.0)
    other = translator_of(letters(), self_attention_window=4)
    sampling = sharing(shared, decode_method="sample")
    for choice, translator, seconds in (
        (EngineChoice(), shared, 100.0), (auto, shared, 1.0), (auto, other, 100.0), (auto, sampling, 100.0)
    ):  # fmt: skip
        assert speed_advice(choice, translator, seconds) == ""
    monkeypatch.delitem(sys.modules, "ctranslate2")
    assert speed_advice(auto, shared, 100.0) == ""
