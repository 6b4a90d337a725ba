"""Callbacks of Keras that act on epochs and tests: called at evaluations, or refused."""

import csv

import keras
import pytest

from t2t.errors import ArgumentError
from t2t.training.callbacks.best import BestTracker
from t2t.training.callbacks.checks import checked_callbacks
from t2t.training.callbacks.epochs import CallEpochHooks
from t2t.training.callbacks.evaluation import Evaluate
from t2t.training.callbacks.signals import StopRequestedError
from tests.errors import refused
from tests.unit.training.test_training_callbacks import Store
from tests.unit.training.training_fakes import Step, trainer

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
        (of_checkpoints("x.keras"), ["ModelCheckpoint", "t2t.load", "eval_every", "save_weights_only=True"]),
        (of_checkpoints("x.weights.h5", save_weights_only=True, save_freq=3), ["save_freq", "'epoch'", "eval_every"]),
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
