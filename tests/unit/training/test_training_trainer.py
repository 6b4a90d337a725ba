"""The loop of updates, and Keras's callbacks of epochs and tests: called at evaluations, or refused."""

import csv
import math
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t.errors import ArgumentError, MachineError
from t2t.training.callbacks.checkpoints import BestTracker
from t2t.training.callbacks.checks import checked_callbacks
from t2t.training.callbacks.epochs import CallEpochHooks
from t2t.training.callbacks.evaluation import Evaluate
from t2t.training.callbacks.signals import StopRequestedError
from t2t.training.trainer import DivergedError
from tests.errors import refused
from tests.unit.training.test_training_callbacks import Store
from tests.unit.training.training_fakes import Step, trainer


class Recorder(keras.callbacks.Callback):
    def __init__(self, stop_at=None):
        super().__init__()
        self.heard, self.stop_at = [], stop_at

    def on_train_begin(self, logs=None):
        self.heard.append(("begin", None))

    def on_train_batch_begin(self, batch, logs=None):
        self.heard.append((f"before {batch}", None))

    def on_train_batch_end(self, batch, logs=None):
        self.heard.append((f"after {batch}", logs))
        if batch == self.stop_at:
            self.model.stop_training = True

    def on_train_end(self, logs=None):
        self.heard.append(("end", logs))


def test_callbacks_hear_every_update_and_get_figures_at_log_steps_only():
    recorder = Recorder()
    assert trainer(train_steps=3).fit([recorder]) == 3
    assert [name for name, _ in recorder.heard] == [
        "begin", "before 0", "after 1", "before 1", "after 2", "before 2", "after 3", "end",
    ]  # fmt: skip
    with_figures = {name for name, logs in recorder.heard if logs}
    assert with_figures == {"after 2", "end"}  # the third update is reported at the end


def test_batches_go_to_replicas_then_to_micro_batches_in_the_global_order():
    step = Step(replicas=2)
    run = trainer(step, train_steps=2, micro_batches=2)
    run.fit([])
    assert step.given == [(1, 0.01, [[1, 2], [3, 4]]), (2, 0.02, [[5, 6], [7, 8]])]
    assert run.data_state == {"batch": 8}


def test_a_resumed_trainer_goes_on_with_the_next_update_until_a_callback_ends_it():
    step = Step()
    assert trainer(step, train_steps=9, update=2).fit([Recorder(stop_at=4)]) == 4
    assert [update for update, _, _ in step.given] == [3, 4]


def test_callbacks_that_ask_for_it_hear_of_an_error():
    class Listener(Recorder):
        def on_train_error(self):
            self.heard.append(("error", None))

    class Breaks(Recorder):
        def on_train_batch_end(self, batch, logs=None):
            raise KeyError

    listener, plain = Listener(), Recorder()
    with pytest.raises(KeyError):
        trainer().fit([listener, Breaks(), plain])
    assert [name for name, _ in listener.heard] == ["begin", "before 0", "after 1", "error"]
    assert [name for name, _ in plain.heard] == ["begin", "before 0"]
    trainer(train_steps=1).fit([finished := Listener()])
    assert finished.heard[-1][0] == "end"


def test_a_report_by_hand():
    """Two updates of loss 6 over 3 tokens in batches of 2 x 3 padded target tokens."""
    run = trainer(train_steps=2, log_every=10)
    recorder = Recorder()
    run.fit([recorder])
    logs = recorder.heard[-1][1]
    assert logs.pop("tokens_per_second") > 0
    assert logs == {"loss": 2.0, "tokens_per_update": 3.0, "padding": 0.5, "learning_rate": 0.02, "grad_norm": 1.0}


# === What ends a run ===
def test_what_is_not_finite_is_named_at_the_next_log_step():
    run = trainer(Step(bad=(3, 4)), train_steps=9, log_every=5)
    with refused(3, "nan", 1.5, "learning_rate_warmup_steps", "--warm_start_from", by=DivergedError):
        run.fit([])
    assert run.update == 5


def test_with_float16_an_overflow_is_counted_and_an_error_only_at_the_smallest_scale(caplog):
    caplog.set_level("INFO", logger="t2t")
    run = trainer(Step(bad=(3, 4, 8), scale=8.0), train_steps=10)
    recorder = Recorder()
    assert run.fit([recorder]) == 10
    reports = [logs for _, logs in recorder.heard if logs]
    assert [logs["skipped_updates"] for logs in reports] == [0, 2, 2, 3, 3]
    # Of an update that was skipped, neither loss nor norm counts; in the second report, there is no other.
    assert [logs["loss"] for logs in reports] == [2.0, pytest.approx(math.nan, nan_ok=True), 2.0, 2.0, 2.0]
    assert [logs["grad_norm"] for logs in reports if logs["loss"] == 2.0] == [1.0, 3.0, 3.5, 5.0]
    assert [re.findall(r"\d+", message) for message in caplog.messages] == [["3", "4", "16", "2"], ["8", "16", "1"]]
    with refused(3, "float16", "precision=mixed_bfloat16", by=DivergedError):
        trainer(Step(bad=(3,), scale=1.0)).fit([])


@pytest.mark.parametrize("scale", [None, 2.0])
def test_an_update_of_padding_alone_is_named(scale):
    with refused(3, "padding,", "encode_samples", by=DivergedError):
        trainer(Step(empty=(3,), scale=scale), train_steps=9).fit([])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_weights_that_are_not_finite_are_named(bad):
    run = trainer(update=7)
    run.check_weights({"a": np.ones(3, np.float32), "b": np.zeros(2)})
    with refused(7, "b", by=DivergedError):
        run.check_weights({"a": np.ones(3, np.float32), "b": np.array([0.0, bad])})


class Fails(Step):
    """A step that raises an error in place of an update."""

    def __init__(self, error):
        super().__init__()
        self._error = error

    def __call__(self, *args):
        raise self._error

    warm_up = __call__


@pytest.mark.parametrize("error", [tf.errors.ResourceExhaustedError(None, None, "OOM"), MemoryError()])
@pytest.mark.parametrize("where", ["update", "rehearsal"])
def test_running_out_of_memory_says_of_what_and_what_to_do(error, where):
    run = trainer(Fails(error))
    batch = {"inputs": np.ones((2, 4), np.int32), "targets": np.ones((2, 3), np.int32)}
    with refused("inputs", "4),", "targets", "3)", "batch_size", "effective_batch_size", by=MachineError):
        run.fit([]) if where == "update" else run.warm_up([batch])


def test_other_errors_pass_as_they_are():
    with pytest.raises(ZeroDivisionError):
        trainer(Fails(ZeroDivisionError())).fit([])


@pytest.mark.parametrize(
    ("micro_batches", "updates"), [(1, [["one"], ["two"], ["three"]]), (3, [["one", "two"], ["three", "three"]])]
)
def test_rehearsal_runs_every_batch_on_every_replica_and_counts_for_nothing(micro_batches, updates):
    step = Step(replicas=2)
    run = trainer(step, micro_batches=micro_batches)
    batches = {name: {"targets": np.ones((2, 3), np.int32)} for name in ("one", "two", "three")}
    run.warm_up([*batches.values()])
    assert step.rehearsed == [[[batches[name]] * 2 for name in names] for names in updates]
    assert (run.update, run.data_state, step.given) == (0, {"batch": 0}, [])


# === Callbacks that act on epochs and tests ===

HOOKS = (
    "on_train_begin", "on_train_end", "on_epoch_begin", "on_epoch_end", "on_test_begin", "on_test_end",
    "on_train_batch_begin", "on_train_batch_end",
)  # fmt: skip


def trained(
    callbacks, losses=(5.0, 4.0, 3.0, 2.0), every=2, train_steps=4, update=0, log_every=2, evaluates=True, step=None
):
    """Trains with an evaluation every few updates, whose loss comes from the list; returns the updates done."""
    run = trainer(step, train_steps=train_steps, update=update, log_every=log_every)
    found = iter(losses)

    def evaluate():
        loss = next(found)
        if isinstance(loss, Exception):
            raise loss
        return {"teacher_forced/loss": loss, "bleu": 10 * loss}

    hooks = CallEpochHooks(run, callbacks, every)
    evaluation = Evaluate(
        run,
        hooks.tests(evaluate, lambda figures: figures["teacher_forced/loss"]),
        [BestTracker(Store(), "bleu", higher_is_better=True)],
        every=every,
    )
    return run.fit([*([evaluation] if evaluates else []), hooks, *callbacks, hooks.ending])


def recorded(**given):
    """Trains with a callback that records every hook; returns the records: the name and the arguments of each."""
    notes = []

    def note(name):
        return lambda *arguments, **named: notes.append((name.removeprefix("on_"), *arguments, *named.values()))

    trained([keras.callbacks.LambdaCallback(**{name: note(name) for name in HOOKS})], **given)
    return notes


def of(notes, *names):
    return [note[1:] for note in notes if note[0] in names]


def test_an_epoch_is_the_updates_from_one_evaluation_to_the_next():
    notes = recorded(train_steps=3)
    of_update = ["train_batch_begin", "train_batch_end"]
    test_and_end = ["test_begin", "test_end", "epoch_end"]
    batches = ["train_batch_begin", "test_begin", "test_end", "train_batch_end", "epoch_end"]
    assert [name for name, *_ in notes] == [
        "train_begin", "epoch_begin", *of_update, *batches, "epoch_begin", *of_update, *test_and_end, "train_end",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "epochs"),
    [
        ({"train_steps": 3}, [0, 1]),
        # Update 4's evaluation is missing: it is made before the callbacks begin, and is not one of their epochs.
        ({"update": 4, "train_steps": 7}, [2, 3]),
        ({"update": 3, "train_steps": 4}, [1]),
    ],
)
def test_epochs_are_counted_on_in_a_resumed_run(given, epochs):
    notes = recorded(**given)
    assert [epoch for epoch, *_ in of(notes, "epoch_begin")] == epochs
    assert [epoch for epoch, *_ in of(notes, "epoch_end")] == epochs
    assert len(of(notes, "test_end")) == len(epochs)
    if "update" in given and len(epochs) > 1:
        assert [logs["val_loss"] for _, logs in of(notes, "epoch_end")] == [4.0, 3.0]


def test_tests_and_epochs_are_given_the_figures_of_the_dev_split():
    notes = recorded(train_steps=2)
    ((tested,),), ((_, ended),) = of(notes, "test_end"), of(notes, "epoch_end")
    assert tested == {"teacher_forced/loss": 5.0, "loss": 5.0, "bleu": 50.0}
    assert {name: value for name, value in ended.items() if name.startswith("val_")} == {
        "val_teacher_forced/loss": 5.0, "val_loss": 5.0, "val_bleu": 50.0,
    }  # fmt: skip
    assert (ended["loss"], ended["learning_rate"]) == (2.0, 0.02)


def test_without_evaluations_epochs_have_the_figures_of_training_alone():
    notes = recorded(evaluates=False)
    assert not of(notes, "test_begin")
    ends = of(notes, "epoch_end")
    assert [epoch for epoch, _ in ends] == [0, 1]
    assert not any(name.startswith("val_") for _, logs in ends for name in logs)
    assert ends[0][1]["loss"] == 2.0


def test_an_evaluation_that_is_broken_off_ends_no_epoch():
    notes = recorded(losses=[StopRequestedError()])
    assert len(of(notes, "train_batch_end")) == 2
    assert not of(notes, "epoch_end", "test_end")
    assert notes[-1][0] == "train_end"


def test_early_stopping_of_keras_ends_training():
    stopping = keras.callbacks.EarlyStopping(patience=2)
    assert trained([stopping], losses=[3.0, 2.0, 2.5, 2.5, 1.0], train_steps=20) == 8
    assert stopping.stopped_epoch == 3
    higher = keras.callbacks.EarlyStopping(monitor="val_bleu", mode="max", patience=1)
    assert trained([higher], losses=[1.0, 2.0, 2.0], train_steps=20) == 6


def test_a_table_of_epochs_is_written_and_weights_are_saved_where_the_loss_is_best(tmp_path):
    trained([keras.callbacks.CSVLogger(tmp_path / "log.csv")], losses=[5.0, 4.0])
    rows = list(csv.DictReader((tmp_path / "log.csv").read_text().splitlines()))
    assert [(row["epoch"], row["val_loss"], row["loss"]) for row in rows] == [("0", "5.0", "2.0"), ("1", "4.0", "2.0")]
    path, step = str(tmp_path / "{epoch}-{val_loss:.1f}.weights.h5"), Step()
    saving = keras.callbacks.ModelCheckpoint(path, save_weights_only=True, save_best_only=True)
    trained([saving], [5.0, 6.0, 4.0], every=1, train_steps=3, step=step)
    saved = [name.rpartition("/")[2] for name in step.model.weights_saved]
    assert saved == ["1-5.0.weights.h5", "3-4.0.weights.h5"]


def of_checkpoints(path, **changes):
    return lambda: keras.callbacks.ModelCheckpoint(path, **changes)


@pytest.mark.parametrize(
    ("callback", "named"),
    [
        (lambda: keras.callbacks.BackupAndRestore("x"), ["BackupAndRestore"]),
        (lambda: keras.callbacks.ReduceLROnPlateau(), ["ReduceLROnPlateau", "learning_rate_schedule"]),
        (lambda: keras.callbacks.LearningRateScheduler(lambda epoch: 0.1), ["learning_rate_schedule"]),
        (of_checkpoints("x.keras"), ["ModelCheckpoint", "t2t.load", "local_eval_frequency", "save_weights_only=True"]),
        (
            of_checkpoints("x.weights.h5", save_weights_only=True, save_freq=3),
            ["save_freq", "'epoch'", "local_eval_frequency"],
        ),
        (
            lambda: keras.callbacks.EarlyStopping(restore_best_weights=True),
            ["EarlyStopping", "restore_best_weights", "t2t.load(run,"],
        ),
        (lambda: keras.callbacks.EarlyStopping(monitor="val_bleu"), ["monitor='val_bleu'", "mode='max'", "mode='min'"]),
        (lambda: keras.callbacks.TensorBoard("x"), ["TensorBoard", "events/"]),
        (lambda: keras.callbacks.ProgbarLogger(), ["ProgbarLogger"]),
        (lambda: keras.callbacks.SwapEMAWeights(), ["ema_decay"]),
        (lambda: keras.callbacks.EarlyStopping, ["EarlyStopping'>"]),
        (lambda: print, ["callbacks:", "print>"]),
    ],
)
def test_a_callback_that_cannot_work_is_refused(callback, named):
    with refused(*named, by=ArgumentError):
        trainer().fit([callback()])


def test_callbacks_may_be_one_several_or_none():
    one = keras.callbacks.Callback()
    assert checked_callbacks(one) == checked_callbacks([one]) == checked_callbacks((one,)) == [one]
    assert checked_callbacks(None) == checked_callbacks(()) == []
    for wrong in ("EarlyStopping", 3):
        with refused(f"callbacks={wrong!r}", by=ArgumentError):
            checked_callbacks(wrong)


def test_hooks_that_are_never_called_are_named(caplog):
    checked_callbacks([keras.callbacks.LambdaCallback(on_test_batch_end=print)])
    (message,) = caplog.messages
    assert all(name in message for name in ("LambdaCallback", "on_test_batch_begin", "on_test_batch_end"))
