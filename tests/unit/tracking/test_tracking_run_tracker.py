"""A tracker receives the hparams, each line of metrics once and in order, and the end, whatever errors it raises."""

import logging
import threading

import keras
import numpy as np
import pytest

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import MachineError
from t2t.tracking.run_tracker import FAILED, FINISHED, STOPPED, RunTracker
from tests.errors import refused
from tests.many_runs import write_run
from tests.unit.training.training_fakes import trainer
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


def test_a_resumed_run_goes_on_where_the_tracker_was(run):
    first = told(Notebook(run.path), 25)
    assert first.end == STOPPED
    run.append_metrics(40, {"train/loss": 1.0})
    second = told(Notebook(run.path, name="second"), 40)
    assert second.known == "first"
    assert (updates(first), updates(second)) == ([10, 20, 30], [40])


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
        trainer(train_steps=2).fit([Breaks(), first])
    assert (first.end, updates(first)) == (FAILED, [10, 20, 30])
    run.append_metrics(40, {"train/loss": 1.0})
    trainer(train_steps=2).fit([second])
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


def test_trackers_do_not_forget_for_each_other(run):
    for name in ("a", "b", "a"):
        notebook = Notebook(run.path, name=name)
        notebook.tracker = name
        told(notebook)
        assert notebook.known in ("", name)
    assert notebook.known == "a"
    assert updates(notebook) == []


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
