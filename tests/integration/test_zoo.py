"""The trained runs that come with the package: they load, translate as they did, and are only read.

If a test of what a run holds fails after a change of the network or of formats, make the run again: .ci/make_zoo.py.
"""

import os
import re
import runpy
import subprocess
import sys

import numpy as np
import pytest

import t2t
from t2t.checkpoints.arrays import parse_arrays
from t2t.checkpoints.dev_outputs import read_dev_outputs
from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.cli import datagen, decoder
from t2t.files.paths import ZOO_IN_PACKAGE
from t2t.runs.names import get_hparams
from tests.in_process import call
from tests.readme import PHRASES, ROOT

NAME = "zoo:ende_numbers"
SCORES = ("accuracy_per_sequence", "BLEU")


@pytest.fixture(scope="module")
def translator():
    return t2t.load(NAME)


def test_it_has_nothing_but_a_run_and_its_card():
    run = ZOO_IN_PACKAGE / "ende_numbers"
    made = {path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()}
    step = "checkpoints/step-00001300"
    (answers,) = {name for name in made if name.endswith(".reference.json")}
    assert made == {
        answers,
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


def test_the_script_makes_such_a_run_of_any(tiny_run, tmp_path):
    trained = RunDir.open(tiny_run.output_dir)
    packed = runpy.run_path(str(ROOT / ".ci/make_zoo.py"))["pack"](trained, tmp_path)
    ours, theirs = (CheckpointStore(run.checkpoints_folder) for run in (packed, trained))
    assert (ours.steps(), ours.best().step, theirs.latest()) == ([40], 40, 40)
    found, wanted = ours.load_model().weights, theirs.load_model().weights
    assert found.keys() == wanted.keys()
    assert all(np.array_equal(found[name], wanted[name].astype(np.float16)) for name in found)
    assert (packed.record.data_dir, packed.record.hparams) == ("", trained.record.hparams)
    assert packed.encoders().keys() == trained.encoders().keys()
    assert [path.name for path in packed.path.iterdir() if path.name in ("events", "lock")] == []


@pytest.mark.parametrize("name", [path.name for path in ZOO_IN_PACKAGE.iterdir()])
def test_its_network_is_still_that_of_the_set_that_it_names(name):
    record = RunDir.open(f"zoo:{name}").record
    recorded, now = record.hparams["model"], get_hparams(record.hparams_set)
    assert recorded == {key: value for key, value in now.to_dict()["model"].items() if key in recorded}
    later = {key: value for key, value in now.items() if key in now.to_dict()["model"].keys() - recorded.keys()}
    assert later == {key: now.field_of(key).default for key in later}, "a later hparam has its default in this set"


def test_it_writes_what_it_wrote_when_it_was_made(translator):
    *_, known = read_dev_outputs(ZOO_IN_PACKAGE / "ende_numbers/dev_outputs.jsonl")
    assert [best.text for (best,) in translator.translate(known.sources)] == list(known.outputs)


FIRST = """
import sys
import t2t

texts = ["twenty-one cats", "the train leaves at half past six"]
for how in ({}, {"beam_size": 4}):
    print(*[best.text for best, in t2t.load("zoo:ende_numbers").translate(texts, **how)], sep="\\n")
print(sorted({"tensorflow", "keras"} & set(sys.modules)))
"""


def test_its_first_translation_loads_no_tensorflow(tmp_path):
    """It comes with what its model answers, so that a conversion of its weights is known to be right."""
    pytest.importorskip("ctranslate2")
    environment = {**os.environ, "T2T_CACHE": str(tmp_path), "PYTHONPATH": str(ROOT)}
    environment.pop("T2T_ENGINE")
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [*PHRASES * 2, "[]"]


def test_nothing_is_written_beside_it(translator, tmp_path, monkeypatch):
    """Not even a conversion, which goes to the user's cache."""
    pytest.importorskip("ctranslate2")
    monkeypatch.setenv("T2T_CACHE", str(tmp_path))
    before = {path: path.stat().st_mtime_ns for path in ZOO_IN_PACKAGE.rglob("*")}
    fast = t2t.load(NAME, engine="ctranslate2")
    texts = ["twenty-one cats", "the train leaves at half past six"]
    assert [best.text for (best,) in fast.translate(texts)] == [best.text for (best,) in translator.translate(texts)]
    assert {path: path.stat().st_mtime_ns for path in ZOO_IN_PACKAGE.rglob("*")} == before
    assert list(tmp_path.rglob("model.bin"))


@pytest.mark.slow  # that the card says how good the run is: it decodes two thousand phrases
def test_the_card_has_the_scores_of_its_run(tmp_path):
    call(datagen, problem="translate_ende_numbers", data_dir=tmp_path)
    card = (ZOO_IN_PACKAGE / "ende_numbers/README.md").read_text(encoding="utf-8")
    for split in ("dev", "test"):
        printed = call(decoder, output_dir=NAME, data_dir=tmp_path, decode_split=split, decode_to_file=tmp_path / split)
        exact, bleu = (float(re.search(rf"{name} = ([\d.]+)", printed.out)[1]) for name in SCORES)
        assert f"| {split} | {exact:.1%} of 1,000 | {bleu:.2f} |" in card
