"""Options of runs: what is given, what records add, bounds; raw files may have moved, but not changed."""

import contextlib
import dataclasses
from pathlib import Path

import pytest

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.run_record import RunRecord
from t2t.checkpoints.store import CheckpointStore
from t2t.cli import trainer
from t2t.cli.problem_flags import problem_options
from t2t.data.generation.generate import generate
from t2t.errors import UserError
from t2t.hparams.transformer import transformer_tiny
from t2t.runs.config import GIVEN, REMEMBERED, RUN, START, RunConfig
from t2t.runs.data import open_data, open_run_data
from t2t.runs.experiment import Experiment
from t2t.runs.names import get_problem
from t2t.runs.resolving import (
    changeable_fields,
    check_same_beginning,
    fill_from_run,
    fill_from_start,
    fill_remembered,
)
from t2t.specs import DEV
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


def resumed(folder, generates=False, **given):
    """Returns the configuration with what is given, completed from the run in the folder."""
    run = RunDir.open(folder)
    return fill_remembered(
        fill_from_run(RunConfig.given({"output_dir": folder, **given}), run, generates=generates), run
    )


def test_the_output_directory_alone_names_the_run(folder):
    config = resumed(folder)
    assert (config.problem, config.model, config.hparams_set) == (
        "translate_ende_numbers", "transformer", "transformer_tiny",
    )  # fmt: skip
    assert config.problem_options == {"vocab_kind": "byte"}
    config = resumed(folder, hparams_set="transformer_tiny")  # a set that is named brings no old overrides
    assert (config.hparams, config.train_steps) == ("", None)
    assert resumed(folder, problem="p").problem_options == {}


def test_each_value_knows_where_it_is_from(folder):
    config = resumed(folder, model="transformer", eval_steps=100)
    origins = [
        config.origins.get(name) for name in ("model", "eval_steps", "problem", "data_dir", "log_step_count_steps")
    ]
    assert origins == [GIVEN, GIVEN, RUN, RUN, None]
    assert fill_from_start(RunConfig.given({"warm_start_from": folder})).origins["problem"] == START


def test_without_a_run_nothing_is_remembered(tmp_path):
    config = RunConfig.given({"problem": "p"})
    assert fill_remembered(fill_from_start(fill_from_run(config, None)), None) == config
    nowhere = str(tmp_path / "nowhere")
    config = RunConfig.given({"problem": "p", "warm_start_from": nowhere})
    with refused("--model,", "--hparams_set:", f"--warm_start_from={nowhere}"):
        fill_from_start(config)
    named = dataclasses.replace(config, model="m", hparams_set="s")
    assert fill_from_start(named) == named


@pytest.mark.parametrize(("remembered", "given", "expected"), [
    ("num_heads=2,batch_size=100", {}, {"num_heads": 2, "batch_size": 100, "train_steps": 70}),
    ("num_heads=2,batch_size=100", {"hparams": "beam_size=2,batch_size=50", "train_steps": 90},
     {"num_heads": 2, "batch_size": 50, "beam_size": 2, "train_steps": 90}),
    ("num_heads=2,batch_size=100", {"hparams": "train_steps=90"}, {"train_steps": 90}),
    # What is given drops what it leaves unread of what is remembered.
    ("num_heads=2,beam_size=8,alpha=1.0", {"hparams": "decode_method=greedy"}, {"num_heads": 2, "beam_size": 4}),
])  # fmt: skip
def test_what_is_given_stands_over_what_is_remembered(folder, remembered, given, expected):
    with edited(f"{folder}/run.json") as record:
        record["overrides"] = remembered
    hparams = Experiment.resolve(RunConfig.given({"output_dir": folder, **given})).hparams
    assert {name: getattr(hparams, name) for name in expected} == expected


def test_data_lies_where_it_was_unless_it_is_named_or_made(folder):
    assert str(resumed(folder).data_folder) == "/data/of/the/run"
    for generates in (False, True):
        assert str(resumed(folder, generates, data_dir="/other").data_folder) == "/other"
    with refused("--generate_data", folder, "/data/of/the/run"):
        resumed(folder, generates=True)


def started(source, **given):
    return fill_from_start(RunConfig.given({"warm_start_from": str(source), **given}))


@pytest.mark.parametrize("inside", ["", "checkpoints/step-00000003"])
def test_a_warm_start_alone_names_the_network_and_leaves_how_it_trains(folder, inside, tmp_path):
    save_checkpoint(folder, 0)
    config = started(f"{folder}/{inside}", hparams="alpha=1.0", output_dir=str(tmp_path / "new"))
    assert (config.problem, config.problem_options) == ("translate_ende_numbers", {})
    assert (config.data_dir, config.train_steps) == ("", None)
    assert Experiment.resolve(config).hparams == transformer_tiny().replace(num_heads=2, alpha=1.0)


@pytest.mark.parametrize(("given", "expected"), [
    ({"hparams_set": "transformer_base"}, {"hparams_set": "transformer_base", "hparams": ""}),
    ({"problem": "translate_ende_multi30k"}, {"problem": "translate_ende_multi30k", "hparams": "num_heads=2"}),
    ({"model": "transformer_bart"}, {"model": "transformer_bart", "hparams": "num_heads=2"}),
    ({"hparams": "num_heads=4,batch_size=50"}, {"hparams": "num_heads=4,batch_size=50"}),
])  # fmt: skip
def test_what_is_given_stands_over_what_a_warm_start_names(folder, given, expected):
    config = started(folder, **given)
    assert {name: getattr(config, name) for name in expected} == expected


def test_a_warm_start_from_a_mixture_names_how_its_problems_share_the_network(folder):
    with edited(f"{folder}/run.json") as record:
        record["hparams"]["mixture"]["shared_modalities"] = True
    assert "shared_modalities=True" in started(folder).hparams
    assert "shared_modalities" not in started(folder, problem="translate_ende_numbers").hparams


def save_checkpoint(folder, seed):
    CheckpointStore(RunDir.open(folder).checkpoints_folder).save(3, model={}, state={"seed": seed, "data": {}})


def test_the_seed_of_a_run_is_its_checkpoints_or_else_its_records(folder):
    assert resumed(folder).random_seed == 0
    with edited(f"{folder}/run.json") as record:
        record["random_seed"] = 7
    assert [resumed(folder, **given).random_seed for given in ({}, {"random_seed": 0}, {"random_seed": 3})] == [7, 0, 3]
    save_checkpoint(folder, 8)
    assert resumed(folder).random_seed == resumed(folder, random_seed=8).random_seed == 8
    with refused("--random_seed=3", folder, "8"):
        resumed(folder, random_seed=3)


SETTINGS = {"local_eval_frequency": 100, "eval_steps": 7, "keep_checkpoint_max": 0, "keep_best_checkpoints": 5}


@pytest.mark.parametrize(("recorded", "given", "found"), [
    ({}, {}, {}),  # as of the first versions
    ({}, {"eval_steps": 3}, {"eval_steps": 3}),
    (SETTINGS, {}, SETTINGS),
    (SETTINGS, {"eval_steps": 100, "worker_cpu": 2}, SETTINGS | {"eval_steps": 100, "worker_cpu": 2}),
    (SETTINGS, {"keep_best_checkpoints": 1}, SETTINGS | {"keep_best_checkpoints": 1}),
    ({"worker_cpu": 4, "schedule": "train"}, {}, {"schedule": "train"}),
    ({"keep_best_checkpoints": 5}, {"schedule": "train"}, {"schedule": "train"}),
    ({"keep_best_checkpoints": 5}, {"eval_steps": 0}, {"eval_steps": 0}),
    ({"keep_best_checkpoints": 5, "eval_steps": 0}, {}, {"eval_steps": 0}),
])  # fmt: skip
def test_options_of_a_run_are_kept_unless_others_are_given(folder, recorded, given, found):
    with edited(f"{folder}/run.json") as record:
        record["settings"] = recorded
    config, default = resumed(folder, **given), RunConfig()
    names = (*REMEMBERED, "worker_cpu")
    assert {name: getattr(config, name) for name in names} == {name: getattr(default, name) for name in names} | found


def test_a_record_of_the_first_format_has_the_same_options_under_other_names(folder):
    """Runs of versions that called them `seed`, `eval_every`, `log_every` and `evaluates` resume."""
    with edited(f"{folder}/run.json") as record:
        record.pop("random_seed")
        record |= {"format": 1, "seed": 7}
        record["settings"] = {"eval_every": 30, "eval_steps": 4, "log_every": 9, "evaluates": False}
    config = resumed(folder)
    assert (config.random_seed, config.local_eval_frequency, config.eval_steps) == (7, 30, 4)
    assert (config.log_step_count_steps, config.schedule) == (9, "train")


def test_a_run_that_began_with_other_weights_does_not_begin_again_without_them(folder):
    for run in (RunDir.open(folder), None):
        check_same_beginning(run, "")
    with edited(f"{folder}/run.json") as record:
        record |= {"warm_start": {"from": "/base", "step": 2}, "random_seed": 7}
    with refused(f"--output_dir={folder}", "--warm_start_from=/base"):
        check_same_beginning(RunDir.open(folder), "")
    check_same_beginning(RunDir.open(folder), "base")
    save_checkpoint(folder, 7)
    check_same_beginning(RunDir.open(folder), "")


# === Bounds ===
NUMBERS = (
    "random_seed", "worker_gpu", "worker_cpu", "local_eval_frequency", "eval_steps", "keep_checkpoint_max",
    "keep_best_checkpoints", "log_step_count_steps",
)  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
def test_a_value_is_refused_from_python_exactly_where_the_flag_refuses_it(name, capsys):
    for value in (-1, 0, 1, *([2**32 - 1, 2**32] if name == "random_seed" else [])):
        from_python = None
        with contextlib.suppress(UserError):
            from_python = getattr(RunConfig(**{name: value}), name)
        assert trainer.main(["t2t-trainer", f"--{name}={value}"]) == 2  # there is no --problem either
        said = capsys.readouterr().err
        assert ("--problem" in said) == (from_python == value), said


@pytest.mark.parametrize(("values", "about"), [
    ({"log_step_count_steps": 0}, "1"), ({"local_eval_frequency": 0}, "1"), ({"random_seed": -1}, "0"),
    ({"random_seed": 2**32}, "4294967295"), ({"random_seed": "1"}, "int"), ({"keep_best_checkpoints": 0}, "1"),
    ({"schedule": "evaluate"}, "continuous_train_and_eval"), ({"worker_cpu": -1, "worker_gpu": -2}, "0"),
])  # fmt: skip
def test_wrong_options_are_one_line(values, about):
    with refused(about, *(f"{name}={value!r}" for name, value in values.items())):
        RunConfig(**values)
    assert RunConfig(warm_start_from=Path("a/b")).warm_start_from == "a/b", "a path may be one"


def test_flags_have_the_names_and_defaults_of_the_options_and_the_size_of_a_vocabulary_is_bounded_from_python_too():
    values = trainer.build_flags()
    values(["t2t-trainer"])
    for field in dataclasses.fields(RunConfig):
        if field.name not in ("problem_options", "origins", "hparams", "random_seed", "data_dir"):
            assert values[field.name].value == field.default, field.name
    with refused("vocab_size=-4", 0):
        get_problem("text2text_files", {"vocab_size": -4})
    values = trainer.build_flags()
    values(["t2t-trainer", "--vocab_size=7"])
    assert problem_options(values) == {"vocab_size": 7}


@pytest.mark.parametrize("values", [{"eval_steps": 0}, {"schedule": "train"}])
def test_the_best_ones_are_kept_by_runs_that_evaluate_and_others_do_not_say_how_many(values):
    with refused("--keep_best_checkpoints=2", "--schedule=continuous_train_and_eval", "--eval_steps"):
        RunConfig(keep_best_checkpoints=2, **values)
    every = RunConfig().remembered()
    assert set(every) == set(REMEMBERED)
    assert set(every) - set(RunConfig(**values).remembered()) == {"keep_best_checkpoints"}


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
        config = RunConfig(
            problem="text2text_files", model="transformer", hparams_set="transformer_tiny", problem_options=options,
            data_dir=f"{folder}/data", random_seed=5,
        )  # fmt: skip
        problem = get_problem(config.problem, config.problem_options)
        generate(problem, config.data_folder, tmp_path, workers=1)
        data = open_data(config, problem)
        return data, Experiment(config, HPARAMS, HPARAMS).record(HPARAMS, [data])

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
