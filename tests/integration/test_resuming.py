"""`t2t-trainer --output_dir=run` alone resumes the run, from the data that it was trained from."""

import json
import shutil

import pytest

import t2t
from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.cli import decoder, trainer
from t2t.errors import UserError
from t2t.runs.training import TrainingRun
from tests.builders import edited


@pytest.fixture
def run(tiny_run, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))  # the default data folder is there
    return shutil.copytree(tiny_run.output_dir, tmp_path / "run")


def go_on(run, *flags):
    return trainer.main(["t2t-trainer", f"--output_dir={run}", "--worker_cpu=1", "--local_eval_frequency=20", *flags])


@pytest.mark.slow
def test_the_run_knows_where_its_data_is(run, tiny_run, capsys):
    assert RunDir.open(run).record.data_dir == str(tiny_run.data_dir)
    assert go_on(run, "--train_steps=41") == 0
    assert json.loads((run / "checkpoints/latest.json").read_text())["step"] == 41
    assert "resuming" in capsys.readouterr().err


def test_the_settings_of_a_run_are_kept_and_apply_even_if_nothing_is_left_to_train(run, capsys):
    before, store = RunDir.open(run).record.settings, CheckpointStore(run / "checkpoints")
    shutil.copytree(store.find(20), run / "checkpoints/step-00000010")
    assert (before["eval_steps"], before["eval_every"], before["keep_checkpoint_max"]) == (1, 20, 20)
    command = ["t2t-trainer", f"--output_dir={run}", "--worker_cpu=1", "--eval_steps=2", "--keep_checkpoint_max=1"]
    assert trainer.main(command) == 0
    assert (
        f"settings of the run in {run}: --local_eval_frequency=20 as before; --eval_steps=2 instead of --eval_steps=1; "
        f"--keep_checkpoint_max=1 instead of --keep_checkpoint_max=20\n"
    ) in capsys.readouterr().err
    assert RunDir.open(run).record.settings == before | {"eval_steps": 2, "keep_checkpoint_max": 1}
    assert store.steps() == sorted({store.best().step, 40})


@pytest.mark.parametrize("given", [{}, {"eval_steps": 100}, {"keep_best_checkpoints": 1}])
def test_command_and_function_take_the_settings_of_the_run(run, monkeypatch, given):
    recorded = {"eval_every": 7, "eval_steps": 5, "keep_checkpoint_max": 0, "keep_best_checkpoints": 5}
    with edited(run / "run.json") as record:
        record["settings"] = recorded
    found = []

    def note(request, settings, cluster):
        found.append({name: getattr(settings, name) for name in recorded})
        raise UserError("enough")

    monkeypatch.setattr(TrainingRun, "from_request", note)
    flags = [f"--{name}={value}" for name, value in given.items()]
    assert trainer.main(["t2t-trainer", f"--output_dir={run}", *flags]) == 2
    with pytest.raises(UserError, match="enough"):
        t2t.train(output_dir=run, **given)
    assert found == [recorded | given] * 2


def test_without_updates_a_run_decodes_and_stays_as_it_is(run, tmp_path, capsys):
    with edited(run / "run.json") as record:  # as if it had been interrupted
        record["hparams"]["train"]["train_steps"] = 60
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    (tmp_path / "in").write_text("1 2 3\n4 5\n")
    flags = ["--decode_beam_size=3", f"--decode_from_file={tmp_path / 'in'}", f"--decode_to_file={tmp_path / 'out'}"]
    assert go_on(run, "--train_steps=0", "--hparams=train_steps=80", "--keep_checkpoint_max=1", *flags) == 0
    assert len((tmp_path / "out").read_text().splitlines()) == 2
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    assert f"--train_steps=0: decodes with the checkpoint in {run}; the run stays as it is" in capsys.readouterr().err


def test_data_that_has_moved_is_asked_for_and_its_new_place_remembered(run, tiny_run, tmp_path, capsys):
    with edited(run / "run.json") as record:
        record["data_dir"] = str(tmp_path / "old")
    assert go_on(run) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"t2t-trainer: error: no data of text2text_files in {tmp_path}/old, where it was when the run in {run} was "
        "trained; name its new place with --data_dir"
    )
    assert go_on(run, f"--data_dir={tiny_run.data_dir}") == 0
    assert RunDir.open(run).record.data_dir == str(tiny_run.data_dir)
    assert go_on(run, "--dry_run") == 0


def test_data_is_generated_where_flags_say_and_not_the_record(run, tmp_path, capsys):
    with edited(run / "run.json") as record:
        record["data_dir"] = str(tmp_path / "of a stranger")
    assert go_on(run, "--generate_data", "--dry_run") == 2
    assert f"reads its data from {tmp_path / 'of a stranger'}; name the folder to gene" in capsys.readouterr().err
    assert go_on(run, "--generate_data", "--dry_run", f"--data_dir={tmp_path / 'mine'}") == 0
    assert f"no data at {tmp_path / 'mine/text2text_files'}\n" in capsys.readouterr().err


def test_decoding_does_not_look_there(run, tmp_path, capsys):
    with edited(run / "run.json") as record:
        record["data_dir"] = str(tmp_path / "gone")
    (tmp_path / "in").write_text("1 2 3\n")
    assert decoder.main(["t2t-decoder", f"--output_dir={run}", f"--decode_from_file={tmp_path / 'in'}"]) == 0
    flags = [f"--output_dir={run}", "--decode_split=dev", f"--decode_to_file={tmp_path / 'out'}"]
    assert decoder.main(["t2t-decoder", *flags]) == 2
    assert f"no data of text2text_files in {tmp_path}/home/t2t_data; make it with" in capsys.readouterr().err
