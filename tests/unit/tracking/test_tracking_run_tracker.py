"""Trackers of runs: what they are told, and what MLflow and Weights & Biases store of a run."""

import importlib.util
import logging
import subprocess
import sys
import threading

import keras
import numpy as np
import pytest

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.cli import trainer
from t2t.errors import MachineError, UnknownNameError
from t2t.tracking import TRACKERS, check_trackers, split_names
from t2t.tracking.run_tracker import FAILED, FINISHED, STOPPED, RunTracker
from tests.errors import refused
from tests.many_runs import write_run
from tests.readme import ROOT
from tests.unit.training.training_fakes import trainer as fake_trainer
from tests.waiting import wait_until


class Notebook(RunTracker):
    """Records what it receives; fails to open a run while it is `away`, and to describe it while it is `full`."""

    tracker = "notebook"

    def __init__(self, folder, name="first", away=False, full=False):
        super().__init__(folder)
        self.new_name, self.away, self.full = name, away, full
        self.known, self.hparams, self.reports, self.end, self.tries = None, None, [], None, 0

    def begin(self, run, name):
        self.tries += 1
        if self.away:
            raise ConnectionError("nobody\nanswers")
        self.known = name
        return name or self.new_name

    def describe(self, hparams):
        self.hparams = hparams
        if self.full:
            raise ValueError("too long")

    def send(self, reports):
        self.reports += reports

    def finish(self, state):
        self.end = state


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run", 3, learning_rate=0.25)


def told(notebook, *updates, meanwhile=lambda: None):
    """Tells a notebook of training up to some updates, from its begin to its end; returns it."""
    notebook.on_train_begin()
    meanwhile()
    for update in updates:
        notebook.on_train_batch_end(update, {"loss": 1.0})
    notebook.on_train_end()
    return notebook


def updates(notebook):
    return [report.update for report in notebook.reports]


def test_hparams_every_figure_and_the_end_are_told(run):
    figures = {"train/loss": 1.5, "train/grad_norm": float("nan")}
    notebook = told(Notebook(run.path), 40, meanwhile=lambda: run.append_metrics(40, figures))
    assert (notebook.hparams["problem"], notebook.hparams["learning_rate"]) == ("translate_ende_numbers", 0.25)
    assert notebook.hparams["changes"] == "learning_rate=0.25"
    assert updates(notebook) == [10, 20, 30, 40]
    lines = list(run.metrics())
    assert [report.time for report in notebook.reports] == [line["time"] for line in lines]
    assert notebook.reports[0].figures == {name: lines[0][name] for name in set(lines[0]) - {"step", "time"}}
    assert notebook.reports[3].figures == {"train/loss": 1.5}
    assert notebook.end == FINISHED


def test_figures_are_told_while_training_goes_on(run):
    notebook = Notebook(run.path)
    notebook.on_train_begin()
    wait_until(lambda: updates(notebook) == [10, 20, 30], "what is there is told")
    run.append_metrics(35, {"dev/bleu": 20.0})
    notebook.on_epoch_end(0)
    wait_until(lambda: updates(notebook) == [10, 20, 30, 35], "an evaluation is told")
    notebook.on_train_end()


def test_a_resumed_run_goes_on_where_its_tracker_was_whatever_others_did(run):
    first = told(Notebook(run.path), 25)
    assert first.end == STOPPED
    run.append_metrics(40, {"train/loss": 1.0})
    second = told(Notebook(run.path, name="second"), 40)
    assert second.known == "first"
    assert (updates(first), updates(second)) == ([10, 20, 30], [40])
    for name in ("a", "b", "a"):
        notebook = Notebook(run.path, name=name)
        notebook.tracker = name
        told(notebook)
        assert notebook.known in ("", name)
    assert notebook.known == "a"
    assert updates(notebook) == []


@pytest.mark.parametrize(("update", "expected"), [(20, STOPPED), (30, FINISHED)])
def test_a_run_that_trains_no_further_is_told_as_it_was(run, update, expected):
    CheckpointStore(run.checkpoints_folder).save(update, model={"a": np.ones(2, np.float32)})
    assert told(Notebook(run.path)).end == expected


def test_a_tracker_that_does_not_answer_disturbs_nothing_and_is_told_later(run, caplog):
    notebook = Notebook(run.path, away=True)
    with caplog.at_level(logging.WARNING, "t2t"):
        notebook.on_train_begin()
        for tries in (1, 2):
            wait_until(lambda tries=tries: notebook.tries == tries, "it is asked")
            notebook.on_train_batch_end(10 * tries, {"loss": 1.0})
        wait_until(lambda: notebook.tries == 3, "it is asked again")
    assert ["nobody answers" in record.message for record in caplog.records] == [True]
    notebook.away = False
    notebook.on_train_end()
    assert updates(notebook) == [10, 20, 30]
    assert notebook.end == STOPPED


def test_a_tracker_that_rejects_hparams_opens_one_run_in_all(run):
    """The run that it has opened is used by later attempts, also by those of another process."""
    first = Notebook(run.path, full=True)
    first.on_train_begin()
    wait_until(lambda: first.hparams, "it is described")
    for _ in range(2):
        first.hparams = None
        first.on_train_batch_end(10, {"loss": 1.0})
        wait_until(lambda: first.hparams, "it is described again")
    first.on_train_end()
    assert (first.tries, first.reports) == (1, [])
    second = told(Notebook(run.path, name="second"))
    assert second.known == "first"
    assert updates(second) == [10, 20, 30]


def test_an_error_that_ends_the_process_is_told(run):
    notebook = Notebook(run.path)
    notebook.on_train_begin()
    notebook.on_train_error()  # as the end of the process calls it
    assert notebook.end == FAILED
    assert updates(notebook) == [10, 20, 30]
    assert f"track-{notebook.tracker}" not in [thread.name for thread in threading.enumerate()]


def test_training_that_fails_is_told_at_once_and_the_run_goes_on_with_another_tracker(run):
    class Breaks(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            raise MachineError("disk full")

    first, second = Notebook(run.path), Notebook(run.path)
    with pytest.raises(MachineError):
        fake_trainer(train_steps=2).fit([Breaks(), first])
    assert (first.end, updates(first)) == (FAILED, [10, 20, 30])
    run.append_metrics(40, {"train/loss": 1.0})
    fake_trainer(train_steps=2).fit([second])
    first.on_train_error()  # as the end of the process may call it
    assert (second.known, updates(second), updates(first)) == ("first", [40], [10, 20, 30])


def test_half_a_line_waits_for_the_rest_and_another_file_is_read_from_its_beginning(run):
    with run.metrics_file.open("a") as file:
        file.write('{"step": 40, "time": 5.0, "train/l')
    notebook = Notebook(run.path)
    notebook.on_train_begin()
    wait_until(lambda: updates(notebook) == [10, 20, 30], "whole lines")
    with run.metrics_file.open("a") as file:
        file.write('oss": 2.0}\nno JSON\n{"time": 6.0}\n')
    notebook.on_train_batch_end(40, {"loss": 2.0})
    wait_until(lambda: updates(notebook) == [10, 20, 30, 40], "the rest of it")
    run.metrics_file.write_text('{"step": 5, "time": 1.0, "train/loss": 3.0}\n')
    notebook.on_train_end()
    assert updates(notebook) == [10, 20, 30, 40, 5]


class Forgetful(Notebook):
    def begin(self, run, name):
        super().begin(run, name)
        return "another"


@pytest.mark.parametrize("content", ["{", "[]", '{"notebook": 3}', '{"notebook": {"name": 3, "bytes": 1}}', None])
def test_a_damaged_state_and_a_tracker_that_has_lost_the_run_begin_another_with_all_of_it(run, content):
    if content is None:
        told(Notebook(run.path))
    else:
        (run.path / "tracking.json").write_text(content)
    notebook = told((Forgetful if content is None else Notebook)(run.path))
    assert notebook.known == ("first" if content is None else "")
    assert updates(notebook) == [10, 20, 30]


def test_another_folder_is_said_at_once(tmp_path):
    with refused(tmp_path / "none"):
        Notebook(tmp_path / "none").on_train_begin()
    assert not RunDir.exists(tmp_path / "none")


# === MLflow and Weights & Biases, offline: what they store of a run and of a resumed run ===
NAMES = ("--problem=translate_ende_numbers", "--model=transformer", "--hparams_set=transformer_tiny")


@pytest.mark.parametrize("name", TRACKERS)
def test_a_package_that_is_missing_is_said_before_anything_is_written(name, monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, name, None)
    flags = (*NAMES, f"--output_dir={tmp_path}/run", f"--data_dir={tmp_path}/data", "--generate_data")
    assert trainer.main(["t2t-trainer", *flags, f"--track={name}"]) == 2
    said = capsys.readouterr().err
    assert all(word in said for word in (f"--track={name}", f"t2t-keras[{name}]"))
    assert list(tmp_path.iterdir()) == []


def test_unknown_trackers_and_nothing_to_track_are_refused_and_short_names_lead_to_callbacks(capsys, tmp_path):
    with refused("--track=mlflw", "mlflow", by=UnknownNameError):
        check_trackers("mlflw")
    assert split_names("mlflow, wandb,mlflow,") == ["mlflow", "wandb"]
    for flag in ("--studio", "--track=mlflow"):
        flags = (*NAMES, f"--output_dir={tmp_path}/run", "--schedule=evaluate", flag)
        assert trainer.main(["t2t-trainer", *flags]) == 2
        assert "--schedule=evaluate" in capsys.readouterr().err
    import t2t.tracking

    with refused("'Tracker'", by=AttributeError):
        _ = t2t.tracking.Tracker
    assert set(TRACKERS.values()) == set(t2t.tracking.__all__)
    for name in TRACKERS:
        if importlib.util.find_spec(name) is None:
            with refused(f"t2t-keras[{name}]"):
                getattr(t2t.tracking, TRACKERS[name])


def train_twice(tracker_class, run):
    """A run that is stopped after update 20, and then resumed with more updates and finished."""
    for update in (20, 40):
        tracker = tracker_class(run.path)
        tracker.on_train_begin()
        tracker.on_train_batch_end(update, {"loss": 1.0})
        tracker.on_train_end()
        run.append_metrics(40, {"train/loss": 0.5, "dev/bleu": 12.5})


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
from tests.unit.tracking.test_tracking_run_tracker import train_twice
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
