"""An interrupted and resumed run equals an uninterrupted one bit for bit, in every mode of training.

Most modes use a minimal model; `test_equivalence_runs.py` tests the same with a Transformer.
"""

import json

import pytest

from t2t.checkpoints.dev_outputs import read_dev_outputs
from t2t.checkpoints.store import CheckpointStore
from t2t.models.transformer import Transformer
from tests.equivalence.identity import PARTS

EVALUATES = {"eval_steps": 1}
BOUNDARY = {"batch_size": 200, "shuffle_window": 50, "effective_batch_size": 800}
"""An epoch has two windows of three batches, and an update has four batches."""
OF_TWO = {"problem_choice": "weights", "problem_weights": (1.0, 2.0)}

# name: settings, hparams, updates after which the run is interrupted, last update
MODES = {
    "accumulation": ({}, {"effective_batch_size": 180}, (2,), 4),
    "two replicas, accumulation": ({"worker_cpu": 2}, {"effective_batch_size": 240}, (2,), 4),
    "float16": ({}, {"precision": "mixed_float16"}, (2,), 4),
    "moving average, best by it": (EVALUATES, {"ema_decay": 0.9, "learning_rate": 30.0}, (4,), 8),
    "noise, clipping, decay, falling rate": (
        {}, {"gradient_noise": 0.1, "clip_grad_norm": 0.5, "optimizer": "adamw", "weight_decay": 0.1,
             "learning_rate_schedule": "cosine", "learning_rate": 0.01}, (2,), 4,
    ),
    "curriculum": ({}, {"curriculum_length": 3, "curriculum_steps": 5}, (4,), 6),
    "fixed shapes": ({}, {"fixed_shapes": 3}, (2,), 4),
    "several problems": (EVALUATES, OF_TWO, (4,), 6),
    "in an epoch's last window, and across its end": ({"eval_every": 1}, BOUNDARY, (1, 2), 3),
}  # fmt: skip
QUICK = ("accumulation", "moving average, best by it", "noise, clipping, decay, falling rate", "curriculum")
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
            assert resumed.checkpoint().step == at - at % settings.get("eval_every", 2)
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
        settings = {"worker_cpu": replicas, "eval_every": 6}
        run = make_run(tmp_path / name, settings, model=make_run.tiny, problems="forwards", train_steps=last)
        run.fit()
        return run.checkpoint()

    train("mixed", 2, 2)
    found, expected = train("mixed", 1, 4), train("one", 1, 6)
    assert found.state == expected.state
