"""Runs of earlier versions load, give the same outputs as before, and can be resumed."""

import json
import shutil

import pytest

from t2t.checkpoints.checkpoint import _json_bytes
from t2t.checkpoints.store import CheckpointStore
from t2t.cli import decoder, trainer
from t2t.files.atomic import sha256_of
from tests.builders import edited
from tests.golden.make_run import RUNS
from tests.in_process import call, refuses

MOST_BYTES = 200_000
"""Maximum size in bytes of the folder of a version."""


@pytest.fixture(params=sorted(RUNS.iterdir()), ids=lambda folder: folder.name)
def kept(request, tmp_path):
    """A copy of the folder of a version."""
    return shutil.copytree(request.param, tmp_path / "kept")


def test_it_is_small(kept):
    assert sum(path.stat().st_size for path in kept.rglob("*") if path.is_file()) < MOST_BYTES


@pytest.mark.parametrize("checkpoint", ["latest", "averaged"])
def test_it_decodes_and_scores_as_it_did(kept, checkpoint):
    flags = {"output_dir": kept / "run", "checkpoint": checkpoint, "decode_to_file": kept / "new"}
    call(decoder, **flags, decode_from_file=kept / "lines")
    assert (kept / "new").read_text() == (kept / "decodes").read_text()
    if checkpoint == "latest":
        sides = zip(*((kept / name).read_text().splitlines() for name in ("lines", "decodes")), strict=True)
        (kept / "pairs").write_text("".join("\t".join(pair) + "\n" for pair in sides))
        call(decoder, **flags, score_file=kept / "pairs")
        scores = [[float(line) for line in (kept / name).read_text().splitlines()] for name in ("new", "scores")]
        assert scores[0] == pytest.approx(scores[1], abs=1e-3)


def test_it_trains_on(kept):
    """From its record and data only: the raw files no longer exist."""
    store = CheckpointStore(kept / "run/checkpoints")
    last = store.latest()
    flags = {"output_dir": kept / "run", "data_dir": kept / "data", "train_steps": last + 2}
    assert f"resuming {kept}/run after update {last}" in call(trainer, "--schedule=train", worker_cpu=1, **flags).err
    before, after = store.load(last), store.load()
    assert after.step == last + 2
    assert before.state["data"] != after.state["data"]
    assert before.model.keys() == after.model.keys()


@pytest.mark.parametrize("what", ["run/run.json", "data/text2text_files/manifest.json", "run/checkpoints/latest"])
def test_a_newer_format_is_refused_by_its_number(kept, what):
    if what.endswith(".json"):
        with edited(kept / what) as values:
            values["format"], values["news"] = 99, {"of": "that"}
    else:
        state = CheckpointStore(kept / "run/checkpoints").find("latest") / "state.json"
        state.write_bytes(_json_bytes({"format": 99, "news": 3}))
        sums = json.loads(state.with_name("checksums.json").read_bytes()) | {state.name: sha256_of(state)}
        state.with_name("checksums.json").write_bytes(_json_bytes(sums))
    if "manifest" in what:
        refuses(trainer, "99 1", output_dir=kept / "run", data_dir=kept / "data", train_steps=600, worker_cpu=1)
    else:
        refuses(decoder, "99 1", output_dir=kept / "run", decode_from_file=kept / "lines")
