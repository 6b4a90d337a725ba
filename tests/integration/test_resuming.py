"""`t2t-trainer --output_dir=run` alone resumes the run, from its data; also runs of earlier versions."""

import json
import shutil

import pytest

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.cli import decoder, trainer
from tests.audit import audited
from tests.builders import edited
from tests.golden.make_run import RUNS
from tests.in_process import call, refuses


@pytest.fixture
def run(tiny_run, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))  # the default data folder is there
    return shutil.copytree(tiny_run.output_dir, tmp_path / "run")


def go_on(run, *flags, command=call, about=(), **named):
    """Resumes the run; with `command=refuses`, `about` is what the error names."""
    return command(trainer, *about, "--worker_cpu=1", "--local_eval_frequency=20", *flags, output_dir=run, **named).err


@pytest.mark.slow  # that a run goes on from its own data without any flag
def test_the_run_knows_where_its_data_is(run, tiny_run):
    """Its record is read twice, before training and once its folder is locked, and the manifest of the data once."""
    assert RunDir.open(run).record.data_dir == str(tiny_run.data_dir)
    with audited() as events:
        assert "resuming" in go_on(run, train_steps=41)
    assert json.loads((run / "checkpoints/latest.json").read_text())["step"] == 41
    opened = [str(arguments[0]) for event, arguments in events if event == "open" and arguments[1] in ("r", "rb", None)]
    assert opened.count(str(run / "run.json")) == 2
    assert opened.count(str(tiny_run.data_dir / "text2text_files" / "manifest.json")) == 1


def test_the_settings_of_a_run_are_kept_and_apply_even_if_nothing_is_left_to_train(run):
    before, store = RunDir.open(run).record.settings, CheckpointStore(run / "checkpoints")
    shutil.copytree(store.find(20), run / "checkpoints/step-00000010")
    assert (before["eval_steps"], before["local_eval_frequency"], before["keep_checkpoint_max"]) == (1, 20, 20)
    printed = call(trainer, "--worker_cpu=1", "--eval_steps=2", "--keep_checkpoint_max=1", output_dir=run).err
    (said,) = [line for line in printed.splitlines() if line.startswith(f"settings of the run in {run}: ")]
    for kept in ("--local_eval_frequency=20", "--eval_steps=2", "--eval_steps=1;", "--keep_checkpoint_max=20"):
        assert kept in said
    assert RunDir.open(run).record.settings == before | {"eval_steps": 2, "keep_checkpoint_max": 1}
    assert store.steps() == sorted({store.best().step, 40})


def test_without_updates_a_run_decodes_and_stays_as_it_is(run, tmp_path):
    with edited(run / "run.json") as record:  # as if it had been interrupted
        record["hparams"]["train"]["train_steps"] = 60
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    (tmp_path / "in").write_text("1 2 3\n4 5\n")
    files = {"decode_from_file": tmp_path / "in", "decode_to_file": tmp_path / "out"}
    flags = ["--train_steps=0", "--hparams=train_steps=80", "--keep_checkpoint_max=1", "--decode_beam_size=3"]
    printed = go_on(run, *flags, **files)
    assert len((tmp_path / "out").read_text().splitlines()) == 2
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    assert f"--train_steps=0: decodes with the checkpoint in {run}; " in printed


def test_data_that_has_moved_is_asked_for_and_its_new_place_remembered(run, tiny_run, tmp_path):
    old, mine = tmp_path / "old", tmp_path / "mine"
    with edited(run / "run.json") as record:
        record["data_dir"] = str(old)
    (tmp_path / "in").write_text("\n")
    call(decoder, output_dir=run, decode_from_file=tmp_path / "in")  # does not look there
    split = ["--decode_split=dev", f"--decode_to_file={tmp_path / 'out'}"]
    refuses(decoder, f"text2text_files {tmp_path}/home/t2t_data", *split, output_dir=run)
    go_on(run, "--generate_data", "--dry_run", command=refuses, about=[f"{old}"])
    assert f"no data at {mine}/text2text_files\n" in go_on(run, "--generate_data", "--dry_run", data_dir=mine)
    go_on(run, command=refuses, about=[f"text2text_files {old}, {run} --data_dir"])
    go_on(run, data_dir=tiny_run.data_dir)
    assert RunDir.open(run).record.data_dir == str(tiny_run.data_dir)


# === Runs of earlier versions load, give the same outputs as before, and can be resumed ===
MOST_BYTES = 200_000
"""Maximum size in bytes of the folder of a version."""


@pytest.fixture(params=sorted(RUNS.iterdir()), ids=lambda folder: folder.name)
def kept(request, tmp_path):
    """A copy of the folder of a version."""
    return shutil.copytree(request.param, tmp_path / "kept")


def test_it_is_small_and_trains_on(kept):
    assert sum(path.stat().st_size for path in kept.rglob("*") if path.is_file()) < MOST_BYTES
    # From its record and data only: the raw files no longer exist.
    store = CheckpointStore(kept / "run/checkpoints")
    last = store.latest()
    flags = {"output_dir": kept / "run", "data_dir": kept / "data", "train_steps": last + 2}
    assert f"resuming {kept}/run after update {last}" in call(trainer, "--schedule=train", worker_cpu=1, **flags).err
    before, after = store.load(last), store.load()
    assert after.step == last + 2
    assert before.state["data"] != after.state["data"]
    assert before.model.keys() == after.model.keys()


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
