"""Whole runs that are equal bit for bit: interrupted and resumed, with and without evaluation, with one seed.

What does not depend on the network uses a minimal model.
"""

import functools
import json
import shutil
import signal

import keras
import numpy as np
import pytest

from t2t.checkpoints.dev_outputs import read_dev_outputs
from t2t.checkpoints.store import CheckpointStore
from t2t.layers.dropout import Dropout
from t2t.layers.positions import WordCounts
from t2t.models.transformer import Transformer
from t2t.training.trainer import DivergedError
from tests.builders import edited
from tests.equivalence.identity import PARTS, arrays_of, assert_identical, differing
from tests.errors import refused


# === Whole runs ===
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
    """An uninterrupted run of four updates, with a copy of its folder after two."""
    run = make(folder / "run", train_steps=4, **given)
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


def test_a_signal_ends_the_update_saves_it_and_loses_nothing(make_tiny, whole, tmp_path):
    stopped = make_tiny(tmp_path / "run", {"local_eval_frequency": 1000}, train_steps=4)
    stopped.extra = [StopDuring(2)]
    handler = signal.getsignal(signal.SIGTERM)
    assert stopped.fit() == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == handler
    assert stopped.checkpoint().step == 2
    resumed = make_tiny(tmp_path / "run", {"local_eval_frequency": 1000}, train_steps=4)
    assert resumed.fit() == 0
    assert_identical(whole.checkpoint(), resumed.checkpoint())


def test_what_a_crash_kept_the_end_of_a_run_from_removing_goes_when_it_is_run_again(make_tiny, whole, tmp_path):
    shutil.copytree(whole.folder, tmp_path / "copy")
    checkpoints = tmp_path / "copy" / "checkpoints"
    shutil.copytree(checkpoints / "step-00000002", checkpoints / ".tmp-step-00000001")  # an interrupted deletion
    assert make_tiny(tmp_path / "copy", {"keep_checkpoint_max": 1}, train_steps=4).fit() == 0
    assert sorted(path.name for path in checkpoints.iterdir()) == ["latest.json", "step-00000004"]


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
    again = make_tiny(tmp_path / "again", {"local_eval_frequency": 1000, "log_step_count_steps": 1000}, train_steps=4)
    again.fit()
    assert_identical(whole.checkpoint(), again.checkpoint())


def test_another_seed_is_another_run(make_run, tmp_path):
    one, other = (make_run(tmp_path / str(seed), {"random_seed": seed}) for seed in (3, 4))
    kernels = {v.path for v in one.model.variables if "kernel" in v.path or "table" in v.path}
    assert len(kernels) > 10
    assert differing(*(arrays_of(run.model) for run in (one, other))) == kernels
    ours, theirs = (next(run.batches)[0]["inputs"] for run in (one, other))
    assert not np.array_equal(ours, theirs)


# === Errors ===
def test_a_run_is_not_resumed_with_another_seed(make_tiny, copied):
    with refused("--random_seed=4", copied, 3):
        make_tiny(copied, {"random_seed": 4}, train_steps=4).fit()


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
def test_a_model_whose_parts_would_be_taken_for_each_other_is_not_trained(make_run, tmp_path, layer, path):
    """A checkpoint holds one of two weights; two dropouts have one mask; two layers have one state of decoding."""

    class Twice(make_run.tiny):
        def build(self, input_shape=None):
            super().build()
            self.parts = [layer(name="part") for _ in range(2)]
            for part in self.parts:
                part.build((None, 4))

    with refused("Twice", path):
        make_run(tmp_path / "run", model=Twice, problems="forwards")


def test_an_epoch_of_the_callers_callbacks_ends_after_its_last_update(make_tiny, tmp_path):
    notes = []
    callback = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: notes.append(f"begin {epoch}"),
        on_train_batch_end=lambda update, logs: notes.append(update),
        on_epoch_end=lambda epoch, logs: notes.append(f"end {epoch}"),
    )
    make_tiny(tmp_path / "run", {"local_eval_frequency": 2}, train_steps=3).fit([callback])
    assert notes == ["begin 0", 1, 2, "end 0", "begin 1", 3, "end 1"]


def test_a_run_that_diverges_stops_and_names_the_update_and_what_to_go_back_to(make_tiny, tmp_path):
    run = make_tiny(
        tmp_path / "run", {"local_eval_frequency": 1}, train_steps=20, optimizer="sgd",
        learning_rate_schedule="constant", learning_rate=1e25, learning_rate_warmup_steps=0,
    )  # fmt: skip
    with refused("learning_rate_warmup_steps", "--warm_start_from", by=DivergedError) as raised:
        run.fit()
    good = run.checkpoint()
    assert f"at update {good.step + 1}:" in str(raised.value)
    assert str(raised.value).endswith(f"is step {good.step}")
    for variable in run.model.variables:
        np.testing.assert_array_equal(np.asarray(variable), good.model[variable.path])


# === Every mode of training, interrupted and resumed ===

EVALUATES = {"eval_steps": 1}
BOUNDARY = {"batch_size": 200, "shuffle_window": 50, "effective_batch_size": 800}
"""An epoch has two windows of three batches, and an update has four batches."""
NOISY = {
    "gradient_noise": 0.1, "clip_grad_norm": 0.5, "optimizer": "adamw", "weight_decay": 0.1,
    "learning_rate_schedule": "cosine", "learning_rate": 0.01,
}  # fmt: skip
CURRICULUM = {"curriculum_length": 3, "curriculum_steps": 5}
OF_TWO = {"problem_choice": "weights", "problem_weights": (1.0, 2.0)}

# name: settings, hparams, updates after which the run is interrupted, last update
MODES = {
    "accumulation": ({}, {"effective_batch_size": 180}, (2,), 4),
    "two replicas, accumulation": ({"worker_cpu": 2}, {"effective_batch_size": 240}, (2,), 4),
    "float16": ({}, {"precision": "mixed_float16"}, (2,), 4),
    "moving average, best by it": (EVALUATES, {"ema_decay": 0.9, "learning_rate": 30.0}, (4,), 8),
    "noise, clipping, decay, falling rate": ({}, NOISY, (2,), 4),
    "curriculum": ({}, CURRICULUM, (4,), 6),
    "accumulation, noise, clipping, decay, falling rate, curriculum": (
        {}, {"effective_batch_size": 180, **NOISY, **CURRICULUM}, (4,), 6,
    ),
    "fixed shapes": ({}, {"fixed_shapes": 3}, (2,), 4),
    "several problems": (EVALUATES, OF_TWO, (4,), 6),
    "in an epoch's last window, and across its end": ({"local_eval_frequency": 1}, BOUNDARY, (1, 2), 3),
}  # fmt: skip
QUICK = ("moving average, best by it", "accumulation, noise, clipping, decay, falling rate, curriculum")
"""Modes that the default tests include."""

REWARDED = {"objective_samples": 3, "extra_length": 2}
SPLIT = {"effective_batch_size": 240, "ema_decay": 0.9, "symbol_dropout": 0.1}
TRANSFORMERS = {
    "plain": ({}, {}),
    "accumulation": ({}, {"effective_batch_size": 180}),
    "two replicas": ({"worker_cpu": 2}, {}),
    "two replicas, accumulation": ({"worker_cpu": 2}, {"effective_batch_size": 240}),
    "two replicas, accumulation, bfloat16, noise, a curriculum, a moving average": (
        {"worker_cpu": 2},
        {
            "effective_batch_size": 240, "ema_decay": 0.9, "precision": "mixed_bfloat16", "clip_grad_norm": 0.5,
            "gradient_noise": 0.01, "curriculum_length": 3, "curriculum_steps": 3,
        },
    ),
    "moving average": ({}, {"ema_decay": 0.9}),
    "bfloat16": ({}, {"precision": "mixed_bfloat16"}),
    "float16": ({}, {"precision": "mixed_float16"}),
    "pre-norm, lamb": ({}, {"norm_position": "pre", "optimizer": "lamb", "weight_decay": 0.1}),
    "adafactor": ({}, {"optimizer": "adafactor"}),
    "muon": ({}, {"optimizer": "muon", "weight_decay": 0.1}),
    "adamax": ({}, {"optimizer": "adamax", "optimizer_adamax_clip": 1.2, "gradient_noise": 0.1}),
    "short examples first": ({}, {"curriculum_length": 3, "curriculum_steps": 3, "effective_batch_size": 180}),
    "sgd, falling rate": ({}, {"optimizer": "sgd", "learning_rate_schedule": "cosine", "learning_rate": 0.01}),
    "frozen weights": ({}, {"frozen_weights": "/encoder/|embedding", "ema_decay": 0.5}),
    # Samples depend only on weights, seed and update.
    "expected reward": ({"worker_cpu": 2}, SPLIT | REWARDED | {"objective": "expected_reward"}),
    "minimum risk of two problems": (
        {"worker_cpu": 2}, SPLIT | REWARDED | {"objective": "minimum_risk", "problems": "backwards-forwards"},
    ),
    "scheduled sampling": (
        {"worker_cpu": 2}, SPLIT | {"scheduled_sampling_prob": 0.5, "scheduled_sampling_warmup_steps": 2},
    ),
}  # fmt: skip
SLOW = ("two replicas, accumulation, bfloat16, noise, a curriculum, a moving average", "frozen weights",
        "expected reward")  # fmt: skip
"""Modes with a Transformer that the slow tests include."""


@pytest.fixture
def interrupted(make_run, tmp_path):
    """Returns a function that trains without interruption, then resumes copies; it returns what all runs have left."""

    def train(settings, changes, interruptions, last, **given):
        def make(name):
            return make_run(tmp_path / name, settings, train_steps=last, **given, **changes)

        whole = make("whole")
        for at in interruptions:
            whole.copy_after(at, tmp_path / f"{at}")
        whole.fit()
        for at in interruptions:
            resumed = make(f"{at}")
            assert resumed.checkpoint().step == at - at % settings.get("local_eval_frequency", 2)
            assert resumed.fit() == 0
        return [left_by(tmp_path / name) for name in ("whole", *map(str, interruptions))]

    return train


def left_by(folder):
    """Returns the results of a run by name, without times: all parts of all checkpoints, best steps, and metrics."""
    store = CheckpointStore(folder / "checkpoints")
    found = {"latest": store.latest(), "best": store.best(), "best of forwards": store.best("forwards")}
    for step in store.steps():
        checkpoint = store.load(f"step-{step:08}")
        found[f"{step} state"] = checkpoint.state
        for part in PARTS:
            arrays = getattr(checkpoint, part) or {}
            found |= {f"{step} {part} {name}": array.tobytes() for name, array in arrays.items()}
    if (folder / "dev_outputs.jsonl").exists():
        found["outputs"] = (folder / "dev_outputs.jsonl").read_text()
    for line in map(json.loads, (folder / "metrics.jsonl").read_text().splitlines()):
        kind = "dev" if any(name.startswith("dev/") for name in line) else "train"
        found[f"{line['step']} {kind}"] = {
            k: v for k, v in line.items() if k not in ("time", "train/tokens_per_second")
        }
    return found


def check_same(whole, *others):
    for parts in others:
        assert whole.keys() == parts.keys()
        assert [name for name, value in whole.items() if value != parts[name]] == []


@pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=() if mode in QUICK else pytest.mark.exhaustive) for mode in MODES]
)
def test_interrupted_and_resumed(make_run, interrupted, mode):
    problems = "forwards-one_word" if MODES[mode][1] is OF_TWO else "forwards"
    whole, *others = interrupted(*MODES[mode], model=make_run.tiny, problems=problems)
    assert whole["latest"] == MODES[mode][-1]
    check_same(whole, *others)
    if MODES[mode][1] is BOUNDARY:
        places = [whole[f"{update} state"]["data"] for update in (1, 2)]
        assert places == [{"epoch": 0, "window": 1, "batch": 1}, {"epoch": 1, "window": 0, "batch": 2}]


@pytest.mark.parametrize(
    "mode",
    [pytest.param(mode, marks=pytest.mark.slow if mode in SLOW else pytest.mark.exhaustive) for mode in TRANSFORMERS],
)
def test_four_updates_of_a_transformer_are_two_then_a_resumed_two(interrupted, mode):
    settings, changes = TRANSFORMERS[mode]
    whole, parts = interrupted(settings, changes, (2,), 4, model=Transformer)
    check_same(whole, parts)
    if mode == "float16":
        # No update is skipped to find a scale: the mean over tokens is small enough for the initial scale.
        assert int.from_bytes(whole["4 optimizer loss_scale_good_updates"], "little") == 4


def test_early_stopping_counts_on(make_run, interrupted, caplog):
    """The rate is 0, so nothing changes and the first evaluation, at update 2, stays the best."""
    caplog.set_level("INFO", logger="t2t")
    changes = {"learning_rate": 0.0, "early_stopping_steps": 4}
    whole, parts = interrupted(EVALUATES, changes, (4,), 20, model=make_run.tiny, problems="forwards")
    check_same(whole, parts)
    assert (whole["latest"], whole["best"].step) == (6, 2)
    assert sum(message.startswith("early stopping at update 6: ") for message in caplog.messages) == 2


@pytest.mark.slow
def test_outputs_are_kept_as_if_a_run_had_not_been_interrupted(interrupted, tmp_path):
    check_same(*interrupted(EVALUATES, {"beam_size": 1, "extra_length": 2}, (3,), 4))
    assert [one.step for one in read_dev_outputs(tmp_path / "3/dev_outputs.jsonl")] == [2, 4]


def test_another_number_of_replicas_reads_the_same_batches(make_run, tmp_path):
    """Two updates with two replicas, then two with one, read the same batches as six with one, in other updates."""

    def train(name, replicas, last):
        settings = {"worker_cpu": replicas, "local_eval_frequency": 6}
        run = make_run(tmp_path / name, settings, model=make_run.tiny, problems="forwards", train_steps=last)
        run.fit()
        return run.checkpoint()

    train("mixed", 2, 2)
    found, expected = train("mixed", 1, 4), train("one", 1, 6)
    assert found.state == expected.state
