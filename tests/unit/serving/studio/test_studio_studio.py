"""Runs are found below folders and opened on request, their hparams side by side; few models are loaded at a time."""

import json
import math
import os
import shutil
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from t2t.checkpoints.store import CheckpointStore
from t2t.errors import UnknownNameError
from t2t.studio.run_answers import hparams_json, runs_answer
from t2t.studio.run_folders import NamedRun, RunFolders
from t2t.studio.studio import LoadedModel, LoadedModels, Studio
from tests.errors import refused
from tests.many_runs import write_run, write_runs


def test_runs_are_found_below_folders_and_those_that_begin_later_too(tmp_path):
    write_runs(tmp_path / "all", 3, 1)
    alone = write_run(tmp_path / "alone", 1).path
    once, again = (
        RunFolders({"mine": NamedRun(alone)}, [tmp_path / "all", alone], look_again_s=seconds)
        for seconds in (math.inf, 0.0)
    )
    for runs in (once, again):
        assert runs.names() == ["mine", "group_0/run_00", "group_1/run_01", "group_2/run_02", "alone"]
    write_run(tmp_path / "all" / "new", 1)
    assert "new" not in once.names()
    assert "new" in again.names()
    assert again.run("new").record.problem == "translate_ende_numbers"
    with refused("'group_0/run_01'", "group_0/run_00", "6", by=UnknownNameError):
        again.run("group_0/run_01")


def test_two_runs_of_one_name_are_told_apart_and_a_damaged_one_is_in_the_table(tmp_path):
    for folder in "ab":
        write_run(tmp_path / folder / "run", 30)
    runs = RunFolders({}, [tmp_path / "a", tmp_path / "b"])
    other = str(tmp_path / "b/run")
    assert runs.names() == ["run", other]
    (tmp_path / "b/run/run.json").write_text("{}")
    rows = {one.run: one for _, one in runs.overview()}
    assert rows[other].state == "damaged"
    assert (rows["run"].state, rows["run"].step, rows["run"].of) == ("finished", 300, 300)
    assert rows["run"].tokens_per_second > 0


def test_runs_whose_names_are_not_utf_8_are_in_the_table(tmp_path):
    write_run(tmp_path / os.fsdecode(b"\xff"), 1)
    (write_run(tmp_path / os.fsdecode(b"bad\xfe"), 1).path / "run.json").write_text("{}")
    runs = RunFolders({}, [tmp_path])
    rows = runs_answer(SimpleNamespace(runs=runs), {})["runs"]
    assert [row["run"] for row in rows] == runs.names() == [r"bad\udcfe", r"\udcff"]
    assert r"bad\udcfe" in rows[0]["error"]
    json.dumps(rows, ensure_ascii=False).encode()  # as Starlette does
    assert runs.run(r"\udcff").path == tmp_path / os.fsdecode(b"\xff")


def test_a_run_that_is_deleted_is_missing_in_the_table(tmp_path):
    write_runs(tmp_path, 2, 1)
    for seconds in (math.inf, 0.0):
        runs = RunFolders({}, [tmp_path], look_again_s=seconds)
        first, *others = runs.names()
        shutil.rmtree(runs.place(first).path)
        assert [one["run"] for one in runs_answer(SimpleNamespace(runs=runs), {})["runs"]] == others


def test_a_record_that_changes_is_read_again_and_figures_go_on(tmp_path):
    run = write_run(tmp_path / "run", 2)
    runs = RunFolders({}, [tmp_path])
    assert runs.figures("run").points("train/loss").updates.tolist() == [10, 20]
    run.append_metrics(30, {"train/loss": 1.0})
    assert runs.figures("run").points("train/loss").updates.tolist() == [10, 20, 30]
    shutil.rmtree(run.path)
    write_run(run.path, 1, learning_rate=0.75)
    assert runs.run("run").record.overrides == "learning_rate=0.75"
    assert runs.figures("run").points("train/loss").updates.tolist() == [10]


def save(run, step):
    CheckpointStore(run.checkpoints_folder).save(step, model={"w": np.zeros(2)}, state={})


@pytest.fixture
def loads(tmp_path):
    """A studio of one run with three checkpoints; `loads.log` records the loaded ones."""
    run = write_run(tmp_path / "run", 5)
    for step in (10, 20, 30):
        save(run, step)
    log = []

    def load(run, folder):
        log.append(folder.rpartition("/")[2])
        return SimpleNamespace(reads_text="bad" not in folder), int(folder[-8:])

    runs = RunFolders({}, [tmp_path])
    return SimpleNamespace(studio=Studio(runs, LoadedModels(load)), log=log, run=run, load=load, runs=runs)


def test_a_model_is_loaded_once_and_the_newest_when_there_is_one(loads):
    first = loads.studio.model("run")
    assert (first.step, first.checkpoint) == (30, "30")
    assert loads.studio.model("run", "latest") is first
    assert loads.log == ["step-00000030"]
    save(loads.run, 40)
    assert loads.studio.model("run", "latest").step == 40
    assert loads.studio.model("run", first.checkpoint) is first
    assert loads.log == ["step-00000030", "step-00000040"]


def test_few_models_stay_in_memory_those_that_were_asked_for_last(loads):
    studio = Studio(loads.runs, LoadedModels(loads.load, most=2))
    for step in ("10", "20", "10", "30", "10", "20"):
        assert studio.model("run", step).step == int(step)
    assert [int(name[-2:]) for name in loads.log] == [10, 20, 30, 20]


OWN = "{run}/checkpoints/step-00000010"


@pytest.mark.parametrize("checkpoint", ["25", OWN, "../run/checkpoints/step-00000010", "", "averaged", 5, ["10"]])
def test_a_checkpoint_that_is_not_there_is_refused_and_no_path_is_read(loads, checkpoint):
    """Not even the path of a checkpoint of the run."""
    checkpoint = OWN.format(run=loads.run.path) if checkpoint == OWN else checkpoint
    with refused("latest,", "best,", "10,", "20,", "30"):
        loads.studio.model("run", checkpoint)
    assert loads.log == []


def test_a_model_whose_inputs_are_no_text_is_there_for_examples_alone(loads, tmp_path):
    run = write_run(tmp_path / "bad", 5)
    save(run, 10)
    assert loads.studio.model("bad", only_text=False).step == 10
    with refused(f"{run.path}:", "Data"):
        loads.studio.model("bad")


def test_the_path_of_a_checkpoint_is_not_taken_for_those_of_other_runs(loads, tmp_path):
    save(write_run(tmp_path / "other", 5), 10)
    path = f"{tmp_path}/other/checkpoints/step-00000010"
    studio = Studio(RunFolders({}, [tmp_path]), LoadedModels(loads.load), default=path)
    with refused(f"--checkpoint={path}:", loads.run.path):
        studio.model("run")
    assert loads.log == []


def test_what_is_served_is_the_usual_model_of_its_run_beside_its_checkpoints(loads):
    served = LoadedModel(SimpleNamespace(), 30)
    studio = Studio(loads.runs, LoadedModels(loads.load), {"run": served})
    assert studio.model(None) is studio.model("run") is served
    assert studio.model("run", "10").step == 10
    assert studio.checkpoints("run") == {
        "steps": [10, 20, 30], "names": [], "best": None, "latest": 30, "served": True,
    }  # fmt: skip


def test_examples_need_data_that_was_named(loads):
    assert not loads.studio.has_data
    with refused("t2t-insight", "--data_dir"):
        loads.studio.examples("run", "dev", 5)
    read = lambda run, split, count: ([run.path.name] * count, [split] * count, 99)  # noqa: E731
    studio = Studio(loads.runs, LoadedModels(loads.load), examples=read)
    assert studio.examples("run", "dev", 1) == {"sources": ["run"], "references": ["dev"], "total": 99}


# === Hparams side by side: every one of every run, and which differ ===
def test_hparams_that_differ_are_marked_those_that_a_run_lacks_are_null_and_a_section_stands_in_one_piece(tmp_path):
    first = write_run(tmp_path / "a", 1, learning_rate=0.5).record
    second = write_run(tmp_path / "b", 1, learning_rate=0.25).record
    for record in (first, second):
        record.hparams["model"]["label_smoothing"] = math.nan
    second.hparams["model"]["another"] = 1
    del second.hparams["model"]["num_heads"]
    found = hparams_json({"a": first, "b": second})
    assert found["runs"] == ["a", "b"]
    json.dumps(found, allow_nan=False)
    rows = {(row["section"], row["name"]): row for row in found["rows"]}
    assert rows["schedule", "learning_rate"]["values"] == [0.5, 0.25]
    assert rows["model", "num_heads"]["values"] == [first.hparams["model"]["num_heads"], None]
    assert rows["run", "model"]["values"] == ["transformer", "transformer"]
    differing = {key for key, row in rows.items() if row["differs"]}
    assert differing == {("schedule", "learning_rate"), ("model", "num_heads"), ("model", "another")}
    wanted = {(section, name) for section, values in first.hparams.items() for name in values}
    assert wanted <= set(rows)
    sections = [row["section"] for row in found["rows"]]
    assert sum(one != other for one, other in pairwise(sections)) == len(set(sections)) - 1
