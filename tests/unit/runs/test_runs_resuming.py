"""Resumed runs: values that a request leaves out are taken from the run; raw files may have moved, but not changed."""

import dataclasses

import pytest

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.run_record import RunRecord
from t2t.checkpoints.store import CheckpointStore
from t2t.data.generate import generate
from t2t.hparams.transformer import transformer_tiny
from t2t.models.transformer import Transformer
from t2t.runs.data import open_data, open_run_data
from t2t.runs.names import Request, Resolved, get_problem, resolve
from t2t.runs.recording import changeable_fields, record_of
from t2t.runs.resuming import check_same_beginning, fill_from_run, fill_from_start, recorded_seed, recorded_settings
from t2t.runs.settings import Settings
from t2t.specs.constants import DEV
from t2t.specs.features import ProblemSpec
from tests.errors import refused
from tests.sealed_files import edited


@pytest.fixture
def folder(tmp_path):
    hparams = transformer_tiny().replace(num_heads=2, batch_size=100, train_steps=70)
    record = RunRecord(
        problem="translate_ende_numbers", model="transformer", hparams_set="transformer_tiny",
        overrides="num_heads=2,batch_size=100", hparams=hparams.to_dict(), problem_options={"vocab_kind": "byte"},
        data_dir="/data/of/the/run",
        spec=ProblemSpec(name="translate_ende_numbers"),
    )  # fmt: skip
    return str(RunDir.create(tmp_path / "run", record, {}).path)


def filled(folder, **given):
    return fill_from_run(Request(problem="", output_dir=folder, **given))


def test_the_output_directory_alone_names_the_run(folder):
    request = filled(folder)
    assert (request.problem, request.model, request.hparams_set) == (
        "translate_ende_numbers", "transformer", "transformer_tiny",
    )  # fmt: skip
    assert request.problem_options == {"vocab_kind": "byte"}
    request = filled(folder, hparams_set="transformer_tiny")  # a set that is named brings no old overrides
    assert (request.overrides, request.train_steps) == ("", None)
    assert fill_from_run(Request(problem="p", output_dir=folder)).problem_options == {}


def test_without_a_run_nothing_is_remembered(tmp_path):
    for where in ("", str(tmp_path / "nowhere")):
        request = Request(problem="p", output_dir=where)
        assert fill_from_run(request) is fill_from_start(request, "") is request
    with refused("--model,", "--hparams_set:", f"--warm_start_from={where}"):
        fill_from_start(request, where)
    named = dataclasses.replace(request, model="m", hparams_set="s")
    assert fill_from_start(named, where) is named
    assert recorded_settings(tmp_path / "nowhere", {"eval_steps": 3}) == {"eval_steps": 3}


@pytest.mark.parametrize(("remembered", "given", "expected"), [
    ("num_heads=2,batch_size=100", {}, {"num_heads": 2, "batch_size": 100, "train_steps": 70}),
    ("num_heads=2,batch_size=100", {"overrides": "beam_size=2,batch_size=50", "train_steps": 90},
     {"num_heads": 2, "batch_size": 50, "beam_size": 2, "train_steps": 90}),
    ("num_heads=2,batch_size=100", {"overrides": "train_steps=90"}, {"train_steps": 90}),
    # What is given drops what it leaves unread of what is remembered.
    ("num_heads=2,beam_size=8,alpha=1.0", {"overrides": "decode_method=greedy"}, {"num_heads": 2, "beam_size": 4}),
])  # fmt: skip
def test_what_is_given_stands_over_what_is_remembered(folder, remembered, given, expected):
    with edited(f"{folder}/run.json") as record:
        record["overrides"] = remembered
    hparams = resolve(filled(folder, **given)).hparams
    assert {name: getattr(hparams, name) for name in expected} == expected


def test_data_lies_where_it_was_unless_it_is_named_or_made(folder):
    request = fill_from_run(Request(problem="", output_dir=folder))
    assert (str(request.data_folder), request.is_data_of_run) == ("/data/of/the/run", True)
    named = fill_from_run(Request(problem="", output_dir=folder, data_dir="/other"))
    assert (str(named.data_folder), named.is_data_of_run) == ("/other", False)
    made = fill_from_run(Request(problem="", output_dir=folder, data_dir="/other"), reads_data=False)
    assert (made.data_dir, made.is_data_of_run) == ("/other", False)
    with refused("--generate_data", folder, "/data/of/the/run"):
        fill_from_run(Request(problem="", output_dir=folder), reads_data=False)


def started(source, **given):
    return fill_from_start(Request(**{"problem": "", **given}), str(source))


@pytest.mark.parametrize("inside", ["", "checkpoints/step-00000003"])
def test_a_warm_start_alone_names_the_network_and_leaves_how_it_trains(folder, inside):
    save_checkpoint(folder, 0)
    request = started(f"{folder}/{inside}", overrides="alpha=1.0")
    assert (request.problem, request.problem_options) == ("translate_ende_numbers", {})
    assert (request.data_dir, request.output_dir, request.train_steps) == ("", "", None)
    found = resolve(request).hparams
    assert found == transformer_tiny().replace(num_heads=2, alpha=1.0)


@pytest.mark.parametrize(("given", "expected"), [
    ({"hparams_set": "transformer_base"}, {"hparams_set": "transformer_base", "overrides": ""}),
    ({"problem": "translate_ende_multi30k"}, {"problem": "translate_ende_multi30k", "overrides": "num_heads=2"}),
    ({"model": "transformer_bart"}, {"model": "transformer_bart", "overrides": "num_heads=2"}),
    ({"overrides": "num_heads=4,batch_size=50"}, {"overrides": "num_heads=4,batch_size=50"}),
])  # fmt: skip
def test_what_is_given_stands_over_what_a_warm_start_names(folder, given, expected):
    request = started(folder, **given)
    assert {name: getattr(request, name) for name in expected} == expected


def test_a_warm_start_from_a_mixture_names_how_its_problems_share_the_network(folder):
    with edited(f"{folder}/run.json") as record:
        record["hparams"]["mixture"]["shared_modalities"] = True
    assert "shared_modalities=True" in started(folder).overrides
    assert "shared_modalities" not in started(folder, problem="translate_ende_numbers").overrides


def save_checkpoint(folder, seed):
    CheckpointStore(RunDir.open(folder).checkpoints_folder).save(3, model={}, state={"seed": seed, "data": {}})


def test_the_seed_of_a_run_is_its_checkpoints_or_else_its_records(folder, tmp_path):
    assert recorded_seed(tmp_path / "nowhere") == recorded_seed(folder) == 0
    with edited(f"{folder}/run.json") as record:
        record["seed"] = 7
    assert [recorded_seed(folder, *asked) for asked in ((), (0,), (3,))] == [7, 0, 3]
    save_checkpoint(folder, 8)
    assert recorded_seed(folder) == 8


SETTINGS = {"eval_every": 100, "eval_steps": 7, "keep_checkpoint_max": 0, "keep_best_checkpoints": 5}


@pytest.mark.parametrize(("recorded", "given", "found"), [
    ({}, {}, {}),  # as of earlier versions
    ({}, {"eval_steps": 3}, {"eval_steps": 3}),
    (SETTINGS, {}, SETTINGS),
    (SETTINGS, {"eval_steps": 100, "worker_cpu": 2}, SETTINGS | {"eval_steps": 100, "worker_cpu": 2}),
    (SETTINGS, {"keep_best_checkpoints": 1}, SETTINGS | {"keep_best_checkpoints": 1}),
    ({"worker_cpu": 4, "evaluates": False}, {}, {"evaluates": False}),
    ({"keep_best_checkpoints": 5}, {"evaluates": False}, {"evaluates": False}),
    ({"keep_best_checkpoints": 5}, {"eval_steps": 0}, {"eval_steps": 0}),
    ({"keep_best_checkpoints": 5, "eval_steps": 0}, {}, {"eval_steps": 0}),
])  # fmt: skip
def test_the_settings_of_a_run_are_kept_unless_others_are_given(folder, recorded, given, found):
    with edited(f"{folder}/run.json") as record:
        record["settings"] = recorded
    assert recorded_settings(folder, given) == found


def test_a_run_that_began_with_other_weights_does_not_begin_again_without_them(folder, tmp_path):
    for begun_without in (folder, tmp_path / "nowhere"):
        check_same_beginning(begun_without, "")
    with edited(f"{folder}/run.json") as record:
        record |= {"warm_start": {"from": "/base", "step": 2}, "seed": 7}
    with refused(f"--output_dir={folder}", "--warm_start_from=/base"):
        check_same_beginning(folder, "")
    check_same_beginning(folder, "base")
    save_checkpoint(folder, 7)
    check_same_beginning(folder, "")


# === Where its files have moved ===
HPARAMS = transformer_tiny().freeze()


@pytest.fixture
def made(tmp_path):
    """Returns a function that makes data from a text file, and returns it, opened, with the record of a run on it."""

    def make(folder, text="a b\nc d\n", **more):
        folder = tmp_path / folder
        folder.mkdir()
        (folder / "text").write_text(text)
        names = ("train_source", "train_target", "dev_source", "dev_target")
        options = {"vocab_kind": "byte", **more, **dict.fromkeys(names, f"{folder}/text")}
        request = Request(
            problem="text2text_files", model="transformer", hparams_set="transformer_tiny", problem_options=options,
            data_dir=f"{folder}/data",
        )  # fmt: skip
        problem = get_problem(request.problem, options)
        generate(problem, request.data_folder, tmp_path, workers=1)
        data = open_data(request, problem)
        return data, record_of(Resolved(request, Transformer, HPARAMS, HPARAMS, []), [data], {}, Settings(seed=5))

    return make


def test_a_run_reads_other_data_with_its_vocabulary_read_in_the_same_way(made, tmp_path, caplog):
    data, base = made("base", filter_max_words=9)
    tuned = made("tuned", "e f\n", source_language="en")[1]
    made("french", source_language="fr")
    for name, record in (("base", base), ("tuned", tuned)):
        run = RunDir.create(tmp_path / f"run_{name}", record, data.problem.encoders)
        for other, examples in (("base", 2), ("tuned", 1)):
            caplog.clear()
            with caplog.at_level("INFO", "t2t"):
                opened = open_run_data(run, f"{tmp_path}/{other}/data", record.problem, DEV)
            assert opened.manifest.splits[DEV].examples == examples
            assert bool(caplog.messages) == (other != name)
    with refused(f"{tmp_path}/french/data/text2text_files", "source_language:", "'en',", "'fr'"):
        open_run_data(run, f"{tmp_path}/french/data", record.problem, DEV)


@pytest.mark.parametrize("kept", ["fingerprint", "former_fingerprint"])
def test_a_run_goes_on_where_its_files_have_moved(made, tmp_path, kept):
    data, record = made("here")
    begun = dataclasses.replace(record, data_fingerprint=getattr(data, kept))
    run = RunDir.create(tmp_path / "run", begun, data.problem.encoders)
    again, moved = made("there")
    # A run of the first versions identifies its data by path, too: it resumes with this data, not with new data.
    assert data.former_fingerprint != again.former_fingerprint
    found, asked = (again, moved) if kept == "fingerprint" else (data, record)
    run.resume(asked, changeable_fields(run.record, [found]))
    remembered = RunDir.open(run.path).record
    assert remembered.problem_options == asked.problem_options
    assert remembered.data_fingerprint == data.fingerprint
    run.resume(moved, changeable_fields(run.record, [again]))


def test_a_run_goes_on_with_no_other_data(made, tmp_path):
    data, record = made("here")
    run = RunDir.create(tmp_path / "run", record, data.problem.encoders)
    other, asked = made("there", text="a b\nc e\n")
    with refused(f"--output_dir={run.path}", other.fingerprint[:12], data.fingerprint[:12]):
        run.check_same(asked, changeable_fields(run.record, [other]))
