"""Choice of the decoding engine by request, installed packages and support for the model."""

import logging
import sys

import pytest

from t2t.checkpoints.checkpoint import Checkpoint
from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.run_record import RunRecord
from t2t.inference.engine_choice import EngineChoice
from t2t.runs.engines import conversion_of, engine_of
from tests.errors import refused
from tests.letters import TEXTS, letters, translator_of


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
    asked = EngineChoice(*choice)
    return engine_of(translator, conversion_of(RunDir(folder, record), "letters", checkpoint, hparams, asked), asked)


@pytest.mark.parametrize("choice", ["ctranslate2", "auto"])
def test_ctranslate2_decodes_where_it_can_and_is_converted_once(choice, translator, tmp_path, caplog):
    caplog.set_level(logging.INFO, "t2t")
    assert chosen(translator, tmp_path) is translator.model_engine, "TensorFlow decodes by default"
    assert not (tmp_path / "cache").exists()
    expected = [found[0].ids for found in translator.translate(TEXTS)]
    for _ in range(2):
        translator.engine = chosen(translator, tmp_path, choice)
        assert translator.engine.name.endswith(" in float32")
        assert [found[0].ids for found in translator.translate(TEXTS)] == expected
    assert caplog.text.count("converting step-00000005 for CTranslate2") == 1
    assert caplog.text.count("6 of 6 outputs are equal") == (choice == "auto"), "tried once, and kept with the run"


def test_a_model_that_it_cannot_hold_is_refused_or_decoded_by_tensorflow(tmp_path, caplog):
    caplog.set_level(logging.INFO, "t2t")
    translator = translator_of(letters(), self_attention_window=4)
    with refused("--engine=ctranslate2", "self_attention_window=4"):
        chosen(translator, tmp_path, "ctranslate2")
    assert chosen(translator, tmp_path, "auto") is translator.model_engine
    assert "self_attention_window=4" in caplog.text


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
