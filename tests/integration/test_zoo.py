"""The trained runs that come with the package: they load, translate as they did, and are only read.

If a test of what a run holds fails after a change of the network or of formats, make the run again: .ci/make_zoo.py.
"""

import numpy as np
import pytest

import t2t
from t2t.checkpoints.arrays import parse_arrays
from t2t.checkpoints.dev_outputs import read_dev_outputs
from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.files.zoo import PACKAGE
from t2t.runs.names import get_hparams

NAME = "zoo:ende_numbers"


@pytest.fixture(scope="module")
def translator():
    return t2t.load(NAME)


def test_it_has_nothing_but_a_run_and_its_card():
    run = PACKAGE / "ende_numbers"
    made = {path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()}
    step = "checkpoints/step-00001300"
    assert made == {
        "README.md", "run.json", "metrics.jsonl", "dev_outputs.jsonl", "vocab/vocab.shared.sentencepiece.spm",
        "checkpoints/latest.json", "checkpoints/best.json", f"{step}/model.safetensors", f"{step}/state.json",
        f"{step}/checksums.json",
    }  # fmt: skip
    assert RunDir.open(NAME).record.data_dir == ""


def test_the_weights_have_16_bits_and_are_read_with_32():
    store = CheckpointStore(RunDir.open(NAME).checkpoints_folder)
    stored = parse_arrays((store.find("latest") / "model.safetensors").read_bytes())
    read = store.load_model().weights
    assert {array.dtype for array in stored.values()} == {np.dtype("float16")}
    assert {array.dtype for array in read.values()} == {np.dtype("float32")}
    assert all(np.array_equal(read[name], stored[name]) for name in stored)


@pytest.mark.parametrize("name", [path.name for path in PACKAGE.iterdir()])
def test_its_network_is_still_that_of_the_set_that_it_names(name):
    record = RunDir.open(f"zoo:{name}").record
    assert record.hparams["model"] == get_hparams(record.hparams_set).to_dict()["model"]


def test_it_writes_what_it_wrote_when_it_was_made(translator):
    *_, known = read_dev_outputs(PACKAGE / "ende_numbers/dev_outputs.jsonl")
    assert [best.text for (best,) in translator.translate(known.sources)] == list(known.outputs)


def test_nothing_is_written_beside_it(translator, tmp_path, monkeypatch):
    """Not even a conversion, which goes to the user's cache."""
    pytest.importorskip("ctranslate2")
    monkeypatch.setenv("T2T_CACHE", str(tmp_path))
    before = {path: path.stat().st_mtime_ns for path in PACKAGE.rglob("*")}
    fast = t2t.load(NAME, engine="ctranslate2")
    texts = ["twenty-one cats", "the train leaves at half past six"]
    assert [best.text for (best,) in fast.translate(texts)] == [best.text for (best,) in translator.translate(texts)]
    assert {path: path.stat().st_mtime_ns for path in PACKAGE.rglob("*")} == before
    assert list(tmp_path.rglob("model.bin"))
