"""Whole runs that must be equal bit for bit: resumed and uninterrupted, with and without evaluation, with one seed."""

import os
import re
import shutil
import signal

import keras
import numpy as np
import pytest

from t2t.checkpoints.store import CheckpointStore
from t2t.errors import UserError
from t2t.training.trainer import DivergedError
from tests.builders import edited

ALL_OF_IT = (
    {"worker_cpu": 2},
    {
        "effective_batch_size": 240, "ema_decay": 0.9, "precision": "mixed_bfloat16", "clip_grad_norm": 0.5,
        "gradient_noise": 0.01, "curriculum_length": 3, "curriculum_steps": 3,
    },
)  # fmt: skip
VARIANTS = {
    "plain": ({}, {}),
    "accumulation": ({}, {"effective_batch_size": 180}),
    "two replicas": ({"worker_cpu": 2}, {}),
    "two replicas, accumulation": ({"worker_cpu": 2}, {"effective_batch_size": 240}),
    "moving average": ({}, {"ema_decay": 0.9}),
    "bfloat16": ({}, {"precision": "mixed_bfloat16"}),
    "pre-norm, lamb": ({}, {"norm_position": "pre", "optimizer": "lamb", "weight_decay": 0.1}),
    "adafactor": ({}, {"optimizer": "adafactor"}),
    "adamax": ({}, {"optimizer": "adamax", "optimizer_adamax_clip": 1.2, "gradient_noise": 0.1}),
    "short examples first": ({}, {"curriculum_length": 3, "curriculum_steps": 3, "effective_batch_size": 180}),
    "sgd, falling rate": ({}, {"optimizer": "sgd", "learning_rate_schedule": "cosine", "learning_rate": 0.01}),
}


class StopDuring(keras.callbacks.Callback):
    """Sends this process the signal that a cluster sends before it preempts a machine."""

    def __init__(self, update):
        super().__init__()
        self.update = update

    def on_train_batch_begin(self, batch, logs=None):
        if batch == self.update - 1:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture(scope="module")
def whole(make_run, tmp_path_factory):
    """An uninterrupted run of four updates, with a copy of its folder after two and its initial weights."""
    folder = tmp_path_factory.mktemp("whole")
    run = make_run(folder / "run", train_steps=4)
    run.initial = {v.path: np.asarray(v) for v in run.model.variables}
    run.copy_after(2, folder / "copy")
    assert run.fit() == 0
    run.copy = folder / "copy"
    return run


def assert_identical(one, other):
    """Weights, optimizer slots, averages and position in the data agree bit for bit."""
    assert one.step == other.step
    assert one.state == other.state
    for name in ("model", "optimizer", "ema"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert (mine is None) == (theirs is None)
        assert (mine or {}).keys() == (theirs or {}).keys()
        for key, value in (mine or {}).items():
            assert value.tobytes() == theirs[key].tobytes(), key


def differing(one, other):
    return {name for name, value in one.items() if value.tobytes() != other[name].tobytes()}


def check_resuming(make_run, folder, settings, changes):
    run = make_run(folder / "run", settings, train_steps=4, **changes)
    run.copy_after(2, folder / "copy")
    run.fit()
    resumed = make_run(folder / "copy", settings, train_steps=4, **changes)
    assert resumed.checkpoint().step == 2
    assert resumed.fit() == 0
    assert_identical(run.checkpoint(), resumed.checkpoint())
    return resumed.checkpoint()


def test_four_updates_are_two_then_a_resumed_two(make_run, whole, tmp_path):
    shutil.copytree(whole.copy, tmp_path / "copy")
    resumed = make_run(tmp_path / "copy", train_steps=4)
    halfway = resumed.checkpoint()
    assert halfway.step == 2
    assert resumed.fit() == 0
    assert_identical(whole.checkpoint(), resumed.checkpoint())
    assert len(differing(halfway.model, whole.checkpoint().model)) > 20


@pytest.mark.slow
@pytest.mark.usefixtures("no_rehearsal")
def test_resuming_two_replicas_accumulation_bfloat16_noise_a_curriculum_and_a_moving_average(make_run, tmp_path):
    checkpoint = check_resuming(make_run, tmp_path, *ALL_OF_IT)
    assert len(differing(checkpoint.model, checkpoint.ema)) > 20


@pytest.mark.usefixtures("no_rehearsal")
@pytest.mark.exhaustive
def test_resuming_float16_brings_the_loss_scale_back(make_run, tmp_path):
    checkpoint = check_resuming(make_run, tmp_path, {}, {"precision": "mixed_float16"})
    # No update is skipped to find a scale: the mean over tokens is small enough for the initial scale.
    assert checkpoint.optimizer["loss_scale_good_updates"] == 4
    assert checkpoint.optimizer["loss_scale"] == 2.0**15


@pytest.mark.exhaustive
@pytest.mark.usefixtures("no_rehearsal")
@pytest.mark.parametrize(("settings", "changes"), VARIANTS.values(), ids=VARIANTS.keys())
def test_resuming_every_way_to_train(make_run, tmp_path, settings, changes):
    check_resuming(make_run, tmp_path, settings, changes)


@pytest.mark.usefixtures("no_rehearsal")
def test_a_signal_ends_the_update_saves_it_and_loses_nothing(make_run, whole, tmp_path):
    stopped = make_run(tmp_path / "run", {"eval_every": 1000}, train_steps=4)
    stopped.extra = [StopDuring(2)]
    handler = signal.getsignal(signal.SIGTERM)
    assert stopped.fit() == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == handler
    assert stopped.checkpoint().step == 2
    resumed = make_run(tmp_path / "run", {"eval_every": 1000}, train_steps=4)
    assert resumed.fit() == 0
    assert_identical(whole.checkpoint(), resumed.checkpoint())


def test_what_a_crash_kept_the_end_of_a_run_from_removing_goes_when_it_is_run_again(make_run, whole, tmp_path):
    shutil.copytree(whole.folder, tmp_path / "copy")
    checkpoints = tmp_path / "copy" / "checkpoints"
    shutil.copytree(checkpoints / "step-00000002", checkpoints / ".tmp-step-00000001")  # an interrupted deletion
    assert make_run(tmp_path / "copy", {"keep_checkpoint_max": 1}, train_steps=4).fit() == 0
    assert sorted(path.name for path in checkpoints.iterdir()) == ["latest.json", "step-00000004"]


@pytest.mark.exhaustive
@pytest.mark.usefixtures("no_rehearsal")
def test_a_finished_run_goes_on_into_later_epochs_as_if_it_had_never_ended(make_run, tmp_path):
    changes = {"batch_size": 200, "shuffle_window": 50}
    run = make_run(tmp_path / "whole", {"eval_every": 100}, train_steps=30, **changes)
    run.fit()
    make_run(tmp_path / "parts", {"eval_every": 100}, train_steps=13, **changes).fit()
    longer = make_run(tmp_path / "parts", {"eval_every": 100}, train_steps=30, **changes)
    assert longer.checkpoint().state["data"]["epoch"] >= 1
    longer.fit()
    assert longer.checkpoint().state["data"]["epoch"] >= 3
    assert_identical(run.checkpoint(), longer.checkpoint())


def check_evaluating(make_run, folder, blind, **changes):
    seeing = make_run(folder / "seeing", {"eval_steps": 2}, train_steps=4, beam_size=2, extra_length=2, **changes)
    seeing.fit()
    lines = (seeing.folder / "metrics.jsonl").read_text().splitlines()
    assert sum("dev/bleu" in line and "dev/teacher_forced/loss" in line for line in lines) == 2
    assert_identical(blind.checkpoint(), seeing.checkpoint())


@pytest.mark.slow
@pytest.mark.usefixtures("no_rehearsal")
def test_evaluating_changes_no_bit_of_training(make_run, whole, tmp_path):
    check_evaluating(make_run, tmp_path, whole)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("no_rehearsal")
@pytest.mark.parametrize("changes", [{"ema_decay": 0.5}, {"precision": "mixed_float16"}], ids=["ema", "float16"])
def test_evaluating_changes_no_bit_of_training_otherwise(make_run, tmp_path, changes):
    blind = make_run(tmp_path / "blind", train_steps=4, **changes)
    blind.fit()
    check_evaluating(make_run, tmp_path, blind, **changes)


@pytest.mark.usefixtures("no_rehearsal")
def test_one_seed_is_one_run_however_often_it_logs_and_saves_and_whether_it_rehearses(make_run, whole, tmp_path):
    again = make_run(tmp_path / "again", {"eval_every": 1000, "log_every": 1000}, train_steps=4)
    again.fit()
    assert_identical(whole.checkpoint(), again.checkpoint())


def test_another_seed_is_another_run(make_run, tmp_path):
    one, other = (make_run(tmp_path / str(seed), {"seed": seed}) for seed in (3, 4))
    kernels = {v.path for v in one.model.variables if "kernel" in v.path or "table" in v.path}
    assert len(kernels) > 10
    assert differing(*({v.path: np.asarray(v) for v in run.model.variables} for run in (one, other))) == kernels
    ours, theirs = (next(run.batches)[0]["inputs"] for run in (one, other))
    assert not np.array_equal(ours, theirs)


def test_a_run_is_not_resumed_with_another_seed(make_run, whole, tmp_path):
    shutil.copytree(whole.copy, tmp_path / "copy")
    with pytest.raises(
        UserError, match=r"--random_seed=4: the run in .*copy was begun with 3; resume with that seed or"
    ):
        make_run(tmp_path / "copy", {"seed": 4}, train_steps=4).fit()


def test_a_run_is_not_resumed_by_the_record_of_another_run_of_the_same_shapes(make_run, whole, tmp_path):
    """The other run's record agrees with the flags; only the checkpoint differs."""
    shutil.copytree(whole.copy, tmp_path / "copy")
    with edited(tmp_path / "copy/run.json") as record:
        heads = record["hparams"]["model"]["num_heads"]
        record["hparams"]["model"]["num_heads"] = heads * 2
    with pytest.raises(UserError, match=rf"num_heads={heads} there, num_heads={heads * 2} here; its weights would"):
        make_run(tmp_path / "copy", train_steps=6, num_heads=heads * 2).fit()


def test_a_run_is_not_resumed_from_a_checkpoint_that_tells_no_place_in_the_data(make_run, whole, tmp_path):
    shutil.copytree(whole.copy, tmp_path / "copy")
    run = make_run(tmp_path / "copy", train_steps=6)
    latest = run.checkpoint()
    store = CheckpointStore(tmp_path / "copy/checkpoints")
    store.save(latest.step, model=latest.model, optimizer=latest.optimizer, state=latest.state | {"data": "x"})
    with pytest.raises(UserError, match=rf"{latest.step:08d} has no place in the data to resume from \(found 'x'\)"):
        run.fit()


def test_training_moves_every_weight(whole):
    assert differing(whole.initial, whole.checkpoint().model) == set(whole.initial)


@pytest.mark.usefixtures("no_rehearsal")
def test_an_epoch_of_the_callers_callbacks_ends_after_its_last_update(make_run, tmp_path):
    notes = []
    callback = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: notes.append(f"begin {epoch}"),
        on_train_batch_end=lambda update, logs: notes.append(update),
        on_epoch_end=lambda epoch, logs: notes.append(f"end {epoch}"),
    )
    make_run(tmp_path / "run", {"eval_every": 2}, "forwards", make_run.tiny, train_steps=3).fit([callback])
    assert notes == ["begin 0", 1, 2, "end 0", "begin 1", 3, "end 1"]


@pytest.mark.usefixtures("no_rehearsal")
def test_a_run_that_diverges_stops_and_names_the_update_and_what_to_go_back_to(make_run, tmp_path):
    run = make_run(
        tmp_path / "run", {"eval_every": 1}, train_steps=20, optimizer="sgd", learning_rate_schedule="constant",
        learning_rate=1e25, learning_rate_warmup_steps=0,
    )  # fmt: skip
    with pytest.raises(DivergedError) as error:
        run.fit()
    good = run.checkpoint()
    assert re.fullmatch(
        rf"training diverged at update {good.step + 1}: loss \S+, gradient norm \S+; that update was not applied; "
        rf"lower learning_rate, raise learning_rate_warmup_steps or set clip_grad_norm, in a new --output_dir with "
        rf"--warm_start_from; the last good checkpoint is step {good.step}",
        str(error.value),
    )
    for variable in run.model.variables:
        np.testing.assert_array_equal(np.asarray(variable), good.model[variable.path])
