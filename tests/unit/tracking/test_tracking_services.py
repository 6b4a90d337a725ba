"""MLflow and Weights & Biases, offline: what they store of a run and of a resumed run."""

import importlib.util
import subprocess
import sys

import pytest

from t2t.cli import trainer
from t2t.errors import UnknownNameError
from t2t.tracking.choice import TRACKERS, check_trackers, split_names
from tests.errors import refused
from tests.many_runs import write_run
from tests.readme import ROOT

NAMES = ("--problem=translate_ende_numbers", "--model=transformer", "--hparams_set=transformer_tiny")


@pytest.mark.parametrize("name", TRACKERS)
def test_a_package_that_is_missing_is_said_before_anything_is_written(name, monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, name, None)
    flags = (*NAMES, f"--output_dir={tmp_path}/run", f"--data_dir={tmp_path}/data", "--generate_data")
    assert trainer.main(["t2t-trainer", *flags, f"--track={name}"]) == 2
    said = capsys.readouterr().err
    assert all(word in said for word in (f"--track={name}", f"t2t-keras[{name}]"))
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_tracker_and_nothing_to_track_are_refused(capsys, tmp_path):
    with refused("--track=mlflw", "mlflow", by=UnknownNameError):
        check_trackers(["mlflw"])
    assert split_names("mlflow, wandb,mlflow,") == ["mlflow", "wandb"]
    for flag in ("--studio", "--track=mlflow"):
        flags = (*NAMES, f"--output_dir={tmp_path}/run", "--schedule=evaluate", flag)
        assert trainer.main(["t2t-trainer", *flags]) == 2
        assert "--schedule=evaluate" in capsys.readouterr().err


def train_twice(tracker_class, run):
    """A run that is stopped after update 20, and then resumed with more updates and finished."""
    for update in (20, 40):
        tracker = tracker_class(run.path)
        tracker.on_train_begin()
        tracker.on_train_batch_end(update, {"loss": 1.0})
        tracker.on_train_end()
        run.append_metrics(40, {"train/loss": 0.5, "dev/bleu": 12.5})


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run", 3, learning_rate=0.25)


def test_mlflow_has_params_metrics_and_the_end_of_one_run(run, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    from t2t.tracking import MlflowTracker

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "numbers")
    monkeypatch.chdir(tmp_path)
    train_twice(MlflowTracker, run)
    client = mlflow.tracking.MlflowClient()
    (found,) = client.search_runs([client.get_experiment_by_name("numbers").experiment_id])
    assert (found.info.run_name, found.info.status, found.data.tags["state"]) == ("run", "FINISHED", "finished")
    assert found.data.params["learning_rate"] == "0.25"
    assert found.data.params["problem"] == "translate_ende_numbers"
    history = client.get_metric_history(found.info.run_id, "train/loss")
    expected = [(line["step"], line["train/loss"]) for line in run.metrics()][:4]
    assert sorted((point.step, point.value) for point in history) == expected
    assert found.data.metrics["dev/bleu"] == 12.5


OFFLINE = """
import sys, wandb
from tests.unit.tracking.test_tracking_services import train_twice
from t2t.checkpoints.run_dir import RunDir
from t2t.tracking import WandbTracker

told = []
init = wandb.init

def watched(**arguments):
    run = init(**arguments)
    log = run.log
    run.log = lambda figures: (told.append((figures["update"], figures.get("train/loss"))), log(figures))
    return run

wandb.init = watched
train_twice(WandbTracker, RunDir.open(sys.argv[1]))
print(told)
"""


def test_wandb_has_figures_by_update_and_one_name_for_the_run(run, tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    command = [sys.executable, "-c", OFFLINE, str(run.path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    expected = [(line["step"], line["train/loss"]) for line in run.metrics()][:4]
    assert eval(done.stdout.splitlines()[-1]) == expected
    folders = [path.name for path in (tmp_path / "wandb").glob("offline-run-*")]
    assert len({name.rpartition("-")[2] for name in folders}) == 1, folders


def test_short_names_lead_to_the_callbacks():
    import t2t.tracking

    with refused("'Tracker'", by=AttributeError):
        _ = t2t.tracking.Tracker
    assert {choice.class_name for choice in TRACKERS.values()} == set(t2t.tracking.__all__)
    for name in TRACKERS:
        if importlib.util.find_spec(name) is None:
            with refused(f"t2t-keras[{name}]"):
                getattr(t2t.tracking, TRACKERS[name].class_name)
