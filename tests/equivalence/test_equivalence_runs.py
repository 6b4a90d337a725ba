"""Whole runs that must be equal bit for bit: resumed and uninterrupted, with and without evaluation, with one seed.

Only what depends on the network uses a Transformer.
"""

import functools
import shutil
import signal

import keras
import numpy as np
import pytest

from t2t.checkpoints.store import CheckpointStore
from t2t.layers.dropout import Dropout
from t2t.layers.word_counts import WordCounts
from t2t.models.transformer import Transformer
from t2t.training.trainer import DivergedError
from tests.builders import edited
from tests.equivalence.identity import arrays_of, assert_identical, differing
from tests.errors import refused


class StopDuring(keras.callbacks.Callback):
    """Sends this process the signal that a cluster sends before it preempts a machine."""

    def __init__(self, update):
        super().__init__()
        self.update = update

    def on_train_batch_begin(self, batch, logs=None):
        if batch == self.update - 1:
            signal.raise_signal(signal.SIGTERM)


@pytest.fixture(scope="module")
def make_tiny(make_run):
    """Builds runs of the minimal model, since these laws do not depend on the model."""
    return functools.partial(make_run, model=make_run.tiny, problems="forwards")


@pytest.fixture(scope="module")
def rehearsing(make_run):
    class Rehearsing(make_run.run):
        rehearses = True

    return Rehearsing


def trained(make, folder, **given):
    """An uninterrupted run of four updates, with a copy of its folder after two and its initial weights."""
    run = make(folder / "run", train_steps=4, **given)
    run.initial = arrays_of(run.model)
    run.copy_after(2, folder / "copy")
    assert run.fit() == 0
    run.copy = folder / "copy"
    return run


@pytest.fixture(scope="module")
def whole(make_tiny, rehearsing, tmp_path_factory):
    return trained(make_tiny, tmp_path_factory.mktemp("whole"), runs=rehearsing)


@pytest.fixture
def copied(whole, tmp_path):
    """A copy of the folder of the uninterrupted run after two of its updates."""
    return shutil.copytree(whole.copy, tmp_path / "copy")


def test_four_updates_of_a_transformer_are_two_then_a_resumed_two_and_move_every_weight(make_run, rehearsing, tmp_path):
    whole = trained(make_run, tmp_path, runs=rehearsing)
    resumed = make_run(whole.copy, train_steps=4, runs=rehearsing)
    halfway = resumed.checkpoint()
    assert halfway.step == 2
    assert resumed.fit() == 0
    assert_identical(whole.checkpoint(), resumed.checkpoint())
    assert len(differing(halfway.model, whole.checkpoint().model)) > 20
    assert differing(whole.initial, whole.checkpoint().model) == set(whole.initial)


def test_a_signal_ends_the_update_saves_it_and_loses_nothing(make_tiny, whole, tmp_path):
    stopped = make_tiny(tmp_path / "run", {"eval_every": 1000}, train_steps=4)
    stopped.extra = [StopDuring(2)]
    handler = signal.getsignal(signal.SIGTERM)
    assert stopped.fit() == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == handler
    assert stopped.checkpoint().step == 2
    resumed = make_tiny(tmp_path / "run", {"eval_every": 1000}, train_steps=4)
    assert resumed.fit() == 0
    assert_identical(whole.checkpoint(), resumed.checkpoint())


def test_what_a_crash_kept_the_end_of_a_run_from_removing_goes_when_it_is_run_again(make_tiny, whole, tmp_path):
    shutil.copytree(whole.folder, tmp_path / "copy")
    checkpoints = tmp_path / "copy" / "checkpoints"
    shutil.copytree(checkpoints / "step-00000002", checkpoints / ".tmp-step-00000001")  # an interrupted deletion
    assert make_tiny(tmp_path / "copy", {"keep_checkpoint_max": 1}, train_steps=4).fit() == 0
    assert sorted(path.name for path in checkpoints.iterdir()) == ["latest.json", "step-00000004"]


@pytest.mark.exhaustive
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


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="plain", marks=pytest.mark.slow),
        pytest.param({"ema_decay": 0.5}, id="ema", marks=pytest.mark.exhaustive),
        pytest.param({"precision": "mixed_float16"}, id="float16", marks=pytest.mark.exhaustive),
    ],
)
def test_evaluating_changes_no_bit_of_training(make_run, tmp_path, changes):
    blind = make_run(tmp_path / "blind", train_steps=4, **changes)
    seeing = make_run(tmp_path / "seeing", {"eval_steps": 2}, train_steps=4, beam_size=2, extra_length=2, **changes)
    for run in (blind, seeing):
        run.fit()
    lines = (seeing.folder / "metrics.jsonl").read_text().splitlines()
    assert sum("dev/bleu" in line and "dev/teacher_forced/loss" in line for line in lines) == 2
    assert_identical(blind.checkpoint(), seeing.checkpoint())


def test_one_seed_is_one_run_however_often_it_logs_and_saves_and_whether_it_rehearses(make_tiny, whole, tmp_path):
    again = make_tiny(tmp_path / "again", {"eval_every": 1000, "log_every": 1000}, train_steps=4)
    again.fit()
    assert_identical(whole.checkpoint(), again.checkpoint())


def test_another_seed_is_another_run(make_run, tmp_path):
    one, other = (make_run(tmp_path / str(seed), {"seed": seed}) for seed in (3, 4))
    kernels = {v.path for v in one.model.variables if "kernel" in v.path or "table" in v.path}
    assert len(kernels) > 10
    assert differing(*(arrays_of(run.model) for run in (one, other))) == kernels
    ours, theirs = (next(run.batches)[0]["inputs"] for run in (one, other))
    assert not np.array_equal(ours, theirs)


# === Errors ===


def test_a_run_is_not_resumed_with_another_seed(make_tiny, copied):
    with refused("--random_seed=4", copied, 3):
        make_tiny(copied, {"seed": 4}, train_steps=4).fit()


def test_a_run_is_not_resumed_by_the_record_of_another_run_of_the_same_shapes(make_tiny, copied):
    """The other run's record agrees with the flags; only the checkpoint differs."""
    with edited(copied / "run.json") as record:
        heads = record["hparams"]["model"]["num_heads"]
        record["hparams"]["model"]["num_heads"] = heads * 2
    with refused(f"num_heads={heads}", f"num_heads={heads * 2}"):
        make_tiny(copied, train_steps=6, num_heads=heads * 2).fit()


def test_a_run_is_not_resumed_from_a_checkpoint_that_tells_no_place_in_the_data(make_tiny, copied):
    run = make_tiny(copied, train_steps=6)
    latest = run.checkpoint()
    store = CheckpointStore(copied / "checkpoints")
    store.save(latest.step, model=latest.model, optimizer=latest.optimizer, state=latest.state | {"data": "x"})
    with refused(f"{latest.step:08d}", "'x'"):
        run.fit()


@pytest.mark.parametrize(
    ("layer", "path"),
    [
        (functools.partial(keras.layers.Dense, 4), "twice/part/kernel"),
        (functools.partial(Dropout, 0.1), "twice/part"),
        (functools.partial(WordCounts, "0011"), "twice/part"),
    ],
    ids=["weights", "masks", "states"],
)
def test_a_model_whose_parts_would_be_taken_for_each_other_is_not_trained(make_tiny, make_run, tmp_path, layer, path):
    """A checkpoint holds one of two weights; two dropouts have one mask; two layers have one state of decoding."""

    class Twice(make_run.tiny):
        def build(self, input_shape=None):
            super().build()
            self.parts = [layer(name="part") for _ in range(2)]
            for part in self.parts:
                part.build((None, 4))

    with refused("Twice", path):
        make_tiny(tmp_path / "run", model=Twice)


def test_an_epoch_of_the_callers_callbacks_ends_after_its_last_update(make_tiny, tmp_path):
    notes = []
    callback = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: notes.append(f"begin {epoch}"),
        on_train_batch_end=lambda update, logs: notes.append(update),
        on_epoch_end=lambda epoch, logs: notes.append(f"end {epoch}"),
    )
    make_tiny(tmp_path / "run", {"eval_every": 2}, train_steps=3).fit([callback])
    assert notes == ["begin 0", 1, 2, "end 0", "begin 1", 3, "end 1"]


def test_a_run_that_diverges_stops_and_names_the_update_and_what_to_go_back_to(make_run, tmp_path):
    run = make_run(
        tmp_path / "run", {"eval_every": 1}, model=Transformer, train_steps=20, optimizer="sgd",
        learning_rate_schedule="constant", learning_rate=1e25, learning_rate_warmup_steps=0,
    )  # fmt: skip
    with refused("learning_rate_warmup_steps", "--warm_start_from", by=DivergedError) as raised:
        run.fit()
    good = run.checkpoint()
    assert f"at update {good.step + 1}:" in str(raised.value)
    assert str(raised.value).endswith(f"is step {good.step}")
    for variable in run.model.variables:
        np.testing.assert_array_equal(np.asarray(variable), good.model[variable.path])
