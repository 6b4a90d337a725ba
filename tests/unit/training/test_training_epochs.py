"""Callbacks of Keras that act on epochs and tests: called at evaluations, or refused."""

import csv
import re

import keras
import pytest

from t2t.errors import ArgumentError
from t2t.training.callbacks.best import BestTracker
from t2t.training.callbacks.checks import checked_callbacks
from t2t.training.callbacks.epochs import CallEpochHooks
from t2t.training.callbacks.evaluation import Evaluate
from t2t.training.callbacks.signals import StopRequestedError
from tests.unit.training.test_training_callbacks import Store
from tests.unit.training.training_fakes import Model, trainer

HOOKS = (
    "on_train_begin", "on_train_end", "on_epoch_begin", "on_epoch_end", "on_test_begin", "on_test_end",
    "on_train_batch_begin", "on_train_batch_end",
)  # fmt: skip


def recorder():
    """A Keras callback that records every hook with its arguments, and the list of records."""
    notes = []

    def note(name):
        return lambda *arguments, **named: notes.append((name, *arguments, *named.values()))

    return keras.callbacks.LambdaCallback(**{name: note(name) for name in HOOKS}), notes


def trained(callbacks, losses=(5.0, 4.0, 3.0, 2.0), every=2, train_steps=4, update=0, log_every=2, evaluates=True):
    """Trains with an evaluation every few updates, whose loss comes from the list; returns the updates done."""
    run = trainer(train_steps=train_steps, update=update, log_every=log_every)
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


def names(notes):
    return [note[0].removeprefix("on_") for note in notes]


def test_an_epoch_is_the_updates_from_one_evaluation_to_the_next():
    callback, notes = recorder()
    trained([callback], train_steps=3)
    of_update = ["train_batch_begin", "train_batch_end"]
    test_and_end = ["test_begin", "test_end", "epoch_end"]
    batches = ["train_batch_begin", "test_begin", "test_end", "train_batch_end", "epoch_end"]
    assert names(notes) == [
        "train_begin", "epoch_begin", *of_update, *batches, "epoch_begin", *of_update, *test_and_end, "train_end",
    ]  # fmt: skip
    assert [note[1] for note in notes if note[0] == "on_epoch_begin"] == [0, 1]
    assert [note[1] for note in notes if note[0] == "on_epoch_end"] == [0, 1]


def test_tests_and_epochs_are_given_the_figures_of_the_dev_split():
    callback, notes = recorder()
    trained([callback], train_steps=2)
    (tested,) = [note[1] for note in notes if note[0] == "on_test_end"]
    assert tested == {"teacher_forced/loss": 5.0, "loss": 5.0, "bleu": 50.0}
    (ended,) = [note[2] for note in notes if note[0] == "on_epoch_end"]
    assert {name: value for name, value in ended.items() if name.startswith("val_")} == {
        "val_teacher_forced/loss": 5.0, "val_loss": 5.0, "val_bleu": 50.0,
    }  # fmt: skip
    assert ended["loss"] == 2.0
    assert ended["learning_rate"] == 0.02


def test_without_evaluations_epochs_have_the_figures_of_training_alone():
    callback, notes = recorder()
    trained([callback], evaluates=False)
    assert "test_begin" not in names(notes)
    ends = [note[1:] for note in notes if note[0] == "on_epoch_end"]
    assert [epoch for epoch, _ in ends] == [0, 1]
    assert not any(name.startswith("val_") for _, logs in ends for name in logs)
    assert ends[0][1]["loss"] == 2.0


def test_epochs_of_a_resumed_run_are_counted_on():
    """Update 4's evaluation is missing: it is made before the callbacks begin, and is not one of their epochs."""
    callback, notes = recorder()
    trained([callback], update=4, train_steps=7)
    assert [note[1] for note in notes if note[0] == "on_epoch_begin"] == [2, 3]
    assert [note[1] for note in notes if note[0] == "on_epoch_end"] == [2, 3]
    assert names(notes).count("test_end") == 2
    assert [note[2]["val_loss"] for note in notes if note[0] == "on_epoch_end"] == [4.0, 3.0]


def test_an_epoch_that_begins_in_the_middle_has_its_number():
    callback, notes = recorder()
    trained([callback], update=3, train_steps=4)
    assert [note[1] for note in notes if note[0] in ("on_epoch_begin", "on_epoch_end")] == [1, 1]


def test_an_evaluation_that_is_broken_off_ends_no_epoch():
    callback, notes = recorder()
    assert trained([callback], losses=[StopRequestedError()]) == 2
    assert "epoch_end" not in names(notes)
    assert "test_end" not in names(notes)
    assert names(notes)[-1] == "train_end"


def test_early_stopping_of_keras_ends_training():
    stopping = keras.callbacks.EarlyStopping(patience=2)
    assert trained([stopping], losses=[3.0, 2.0, 2.5, 2.5, 1.0], train_steps=20) == 8
    assert stopping.stopped_epoch == 3
    higher = keras.callbacks.EarlyStopping(monitor="val_bleu", mode="max", patience=1)
    assert trained([higher], losses=[1.0, 2.0, 2.0], train_steps=20) == 6


def test_a_table_of_epochs_is_written(tmp_path):
    trained([keras.callbacks.CSVLogger(tmp_path / "log.csv")], losses=[5.0, 4.0])
    rows = list(csv.DictReader((tmp_path / "log.csv").read_text().splitlines()))
    assert [(row["epoch"], row["val_loss"], row["loss"]) for row in rows] == [("0", "5.0", "2.0"), ("1", "4.0", "2.0")]


def test_weights_are_saved_where_the_loss_is_best(tmp_path, monkeypatch):
    saved = []
    monkeypatch.setattr(Model, "save_weights", lambda self, path, overwrite: saved.append(path), raising=False)
    path = str(tmp_path / "{epoch}-{val_loss:.1f}.weights.h5")
    trained([keras.callbacks.ModelCheckpoint(path, save_weights_only=True, save_best_only=True)], [5.0, 6.0, 4.0], 1, 3)
    assert [name.rpartition("/")[2] for name in saved] == ["1-5.0.weights.h5", "3-4.0.weights.h5"]


@pytest.mark.parametrize(
    ("callback", "message"),
    [
        (lambda: keras.callbacks.BackupAndRestore("x"), "BackupAndRestore cannot work here: training saves its whole "
         "state itself, and the same call resumes; leave it out"),
        (lambda: keras.callbacks.ReduceLROnPlateau(), "ReduceLROnPlateau cannot work here: the learning rate is a "
         "function of the update's number; set the hparam learning_rate_schedule"),
        (lambda: keras.callbacks.LearningRateScheduler(lambda epoch: 0.1), "set the hparam learning_rate_schedule"),
        (lambda: keras.callbacks.ModelCheckpoint("x.keras"), "ModelCheckpoint cannot work here: it saves whole models; "
         "training saves checkpoints itself, which t2t.load takes; set eval_every and keep_checkpoint_max, or give it "
         "save_weights_only=True"),
        (lambda: keras.callbacks.ModelCheckpoint("x.weights.h5", save_weights_only=True, save_freq=3), "save_freq "
         "counts batches; leave it at 'epoch', and set eval_every"),
        (lambda: keras.callbacks.EarlyStopping(restore_best_weights=True), "EarlyStopping cannot work here: "
         "restore_best_weights does not reach the run; leave it out, and load the best by t2t.load(run, 'best')"),
        (lambda: keras.callbacks.EarlyStopping(monitor="val_bleu"), "Keras cannot tell whether more of "
         "monitor='val_bleu' is better; give it mode='max' or mode='min'"),
        (lambda: keras.callbacks.TensorBoard("x"), "training writes events for TensorBoard itself, in events/"),
        (lambda: keras.callbacks.ProgbarLogger(), "ProgbarLogger cannot work here: training shows its progress itself"),
        (lambda: keras.callbacks.SwapEMAWeights(), "kept and evaluated where the hparam ema_decay is set; set that"),
        (lambda: keras.callbacks.EarlyStopping, "EarlyStopping'> is not a Keras callback; call the class"),
        (lambda: print, "callbacks: <built-in function print> is not a Keras callback; derive its class from"),
    ],
)  # fmt: skip
def test_a_callback_that_cannot_work_is_refused(callback, message):
    with pytest.raises(ArgumentError, match=re.escape(message)) as error:
        trainer().fit([callback()])
    assert "\n" not in str(error.value)


def test_callbacks_may_be_one_several_or_none():
    one = keras.callbacks.Callback()
    assert checked_callbacks(one) == checked_callbacks([one]) == checked_callbacks((one,)) == [one]
    assert checked_callbacks(None) == checked_callbacks(()) == []
    for wrong in ("EarlyStopping", 3):
        with pytest.raises(ArgumentError, match=f"callbacks={wrong!r}: it is not a list of Keras callbacks; give one"):
            checked_callbacks(wrong)


def test_hooks_that_are_never_called_are_named(caplog):
    checked_callbacks([keras.callbacks.LambdaCallback(on_test_batch_end=print)])
    assert caplog.messages == ["LambdaCallback: on_test_batch_begin and on_test_batch_end are not called"]
