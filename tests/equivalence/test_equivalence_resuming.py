"""An interrupted and resumed run equals an uninterrupted one bit for bit, in every mode of training.

These tests use a minimal model; `test_equivalence_runs.py` tests the same with a Transformer.
"""

import json

import pytest

from t2t.checkpoints.dev_outputs import read_dev_outputs
from t2t.checkpoints.store import CheckpointStore

TIMES = ("time", "train/tokens_per_second")
EVALUATES = {"eval_steps": 1}
BOUNDARY = {"batch_size": 200, "shuffle_window": 50, "effective_batch_size": 800}
"""An epoch has two windows of three batches, and an update has four batches."""

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
    "several problems": (EVALUATES, {"problem_choice": "weights", "problem_weights": (1.0, 2.0)}, (4,), 6),
    "in an epoch's last window, and across its end": ({"eval_every": 1}, BOUNDARY, (1, 2), 3),
}  # fmt: skip


pytestmark = pytest.mark.usefixtures("no_rehearsal")


@pytest.fixture
def interrupted(make_run, tmp_path):
    """Returns a function that trains without interruption, then resumes copies; it returns the folders of all runs."""

    def train(settings, changes, interruptions, last):
        problems = "forwards-one_word" if "problem_weights" in changes else "forwards"

        def make(name):
            return make_run(
                tmp_path / name, settings, model=make_run.tiny, problems=problems, train_steps=last, **changes
            )

        whole = make("whole")
        for at in interruptions:
            whole.copy_after(at, tmp_path / f"{at}")
        whole.fit()
        for at in interruptions:
            make(f"{at}").fit()
        return [tmp_path / "whole", *(tmp_path / f"{at}" for at in interruptions)]

    return train


def left_by(folder):
    """Returns the results of a run by name, without times: all parts of all checkpoints, best steps, and metrics."""
    store = CheckpointStore(folder / "checkpoints")
    found = {"latest": store.latest(), "best": store.best(), "best of forwards": store.best("forwards")}
    for step in store.steps():
        checkpoint = store.load(f"step-{step:08}")
        found[f"{step} state"] = checkpoint.state
        for part in ("model", "optimizer", "ema"):
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


QUICK = ("accumulation", "moving average, best by it", "noise, clipping, decay, falling rate", "curriculum")
"""Modes that the default tests include."""


@pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=() if mode in QUICK else pytest.mark.exhaustive) for mode in MODES]
)
def test_interrupted_and_resumed(interrupted, mode):
    whole, *others = map(left_by, interrupted(*MODES[mode]))
    assert whole["latest"] == MODES[mode][-1]
    for parts in others:
        assert whole.keys() == parts.keys()
        assert [name for name, value in whole.items() if value != parts[name]] == []
    if MODES[mode][1] is BOUNDARY:
        places = [whole[f"{update} state"]["data"] for update in (1, 2)]
        assert places == [{"epoch": 0, "window": 1, "batch": 1}, {"epoch": 1, "window": 0, "batch": 2}]


def test_early_stopping_counts_on(interrupted, caplog):
    """The rate is 0, so nothing changes and the first evaluation, at update 2, stays the best."""
    caplog.set_level("INFO", logger="t2t")
    changes = {"learning_rate": 0.0, "early_stopping_steps": 4}
    whole, parts = map(left_by, interrupted(EVALUATES, changes, (4,), 20))
    assert whole == parts
    assert (whole["latest"], whole["best"].step) == (6, 2)
    assert sum(message.startswith("early stopping at update 6: ") for message in caplog.messages) == 2


@pytest.mark.slow
def test_outputs_are_kept_as_if_a_run_had_not_been_interrupted(make_run, tmp_path):
    def make(name):
        changes = {"train_steps": 4, "beam_size": 1, "extra_length": 2}
        return make_run(tmp_path / name, {"eval_steps": 1}, problems="backwards", **changes)

    whole = make("whole")
    whole.copy_after(3, tmp_path / "parts")
    whole.fit()
    assert [one.step for one in read_dev_outputs(tmp_path / "parts/dev_outputs.jsonl")] == [2]
    make("parts").fit()
    assert [one.step for one in read_dev_outputs(tmp_path / "parts/dev_outputs.jsonl")] == [2, 4]
    assert left_by(tmp_path / "parts") == left_by(tmp_path / "whole")


def test_another_number_of_replicas_reads_the_same_batches(make_run, tmp_path):
    """Two updates with two replicas, then two with one, read the same batches as six with one, in other updates."""

    def train(name, replicas, last):
        run = make_run(
            tmp_path / name, {"worker_cpu": replicas}, model=make_run.tiny, problems="forwards", train_steps=last
        )
        run.fit()
        return run.checkpoint()

    train("mixed", 2, 2)
    found, expected = train("mixed", 1, 4), train("one", 1, 6)
    assert found.state == expected.state
