"""Numbers that go wrong, and the same numbers with XLA; all programs are compiled before the first update."""

import json

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from t2t.checkpoints.run_dir import RunDir
from t2t.errors import MachineError
from t2t.layers.loops import scan
from t2t.models.transformer import Transformer
from t2t.training.trainer import DivergedError
from tests.errors import refused
from tests.slopes import slope_step, slopes, weights


# === An update ===
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("replicas", [1, 2])
def test_an_update_that_is_not_finite_changes_nothing_and_says_so(bad, replicas):
    step = slope_step(replicas=replicas, start=(1.0, 2.0), ema_decay=0.5, clip_grad_norm=1.0)
    batches = [slopes([1.0, 1.0])] * (replicas - 1) + [slopes([1.0, bad])]
    stats = step([batches], 1, 1.0)
    assert not bool(stats.finite)
    np.testing.assert_array_equal(weights(step), [1.0, 2.0])
    np.testing.assert_array_equal(step.ema[0].numpy(), [1.0, 2.0])
    assert int(step.optimizer.iterations.numpy()) == 0
    stats = step([[slopes([0.5, 0.0])] * replicas], 2, 1.0)
    assert bool(stats.finite)
    np.testing.assert_allclose(weights(step), [0.5, 2.0], rtol=1e-6)


# === A run ===
STEEP = {"optimizer": "sgd", "learning_rate_schedule": "constant", "learning_rate_warmup_steps": 0}


def test_weights_that_an_update_has_spoilt_are_not_saved(make_run, tmp_path):
    """A rate of 1e39 is infinite in float32: loss and gradient of the first update are finite, the new weights not."""
    given = {"train_steps": 5, "learning_rate": 1e39, **STEEP}
    run = make_run(tmp_path / "run", {"local_eval_frequency": 1}, "forwards", make_run.tiny, **given)
    with refused(1, "averaging/", "learning_rate_warmup_steps", "--warm_start_from", by=DivergedError):
        run.fit()
    assert not list((run.folder / "checkpoints").glob("step-*"))


@pytest.mark.slow
def test_one_word_empty_lines_and_a_beam_wider_than_the_vocabulary(make_run, tmp_path):
    """Four ids, label smoothing that prefers the wrong ids, and a beam of eight hypotheses."""
    run = make_run(
        tmp_path / "run", {"eval_steps": 2}, "one_word", train_steps=2, best_metric="bleu", beam_size=8, extra_length=2,
        label_smoothing=0.99, label_smoothing_kind="others",
    )  # fmt: skip
    dev = run.data[0].readers["dev"]
    assert dev.lengths("inputs").min() == 1  # nothing but the end of sequence
    assert run.fit() == 0
    figures = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    evaluation = next(line for line in figures if "dev/bleu" in line)
    assert 0 <= evaluation["dev/bleu"] <= 100
    assert 0 < evaluation["dev/teacher_forced/loss"] < 10


@pytest.fixture
def tensorfloat32():
    """TensorFlow's setting of the process, which is as it was afterwards."""
    setting = tf.config.experimental
    before = setting.tensor_float_32_execution_enabled()
    yield setting
    setting.enable_tensor_float_32_execution(before)


@pytest.mark.parametrize(("precision", "allowed"), [("float32", False), ("tensorfloat32", True)])
def test_only_a_run_that_asks_for_it_multiplies_in_tensorfloat32(make_run, tmp_path, tensorfloat32, precision, allowed):
    tensorfloat32.enable_tensor_float_32_execution(not allowed)
    run = make_run(tmp_path / "run", train_steps=0, precision=precision)
    assert tensorfloat32.tensor_float_32_execution_enabled() is allowed
    tensorfloat32.enable_tensor_float_32_execution(not allowed)  # another run may be built in between
    run.fit()
    assert tensorfloat32.tensor_float_32_execution_enabled() is allowed
    assert run.model.compute_dtype == "float32"


@pytest.mark.parametrize("part", ["score_targets", "decode_step"])
@pytest.mark.slow
def test_a_run_whose_evaluation_does_not_fit_into_memory_ends_before_it_begins(make_run, tmp_path, part):
    def full(*_, **__):
        raise MemoryError

    class Rehearsing(make_run.run):
        rehearses = True

    model = type("Transformer", (Transformer,), {part: full})
    run = make_run(tmp_path / "run", {"eval_steps": 1}, model=model, runs=Rehearsing, train_steps=2)
    with refused("batch_size", by=MachineError):
        run.fit()
    assert not (run.folder / "metrics.jsonl").exists()


# === Updates with and without XLA are equal up to rounding ===

TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}
"""Tolerance of weights after 20 updates: each gradient has a rounding error of 1e-7, and Adam divides by its size."""
SHAPES = {"fixed_shapes": 2, "fixed_shapes_multiple": 8}


@pytest.fixture
def train(make_run, tmp_path):
    """Returns a function that trains or resumes a run in a folder of a given name and returns the run."""

    class Rehearsing(make_run.run):
        rehearses = True

    def train(folder, settings=None, last=20, **changes):
        values = {"model": make_run.tiny, "problems": "forwards", "runs": Rehearsing, **SHAPES, **changes}
        run = make_run(tmp_path / folder, {"local_eval_frequency": 2, **(settings or {})}, train_steps=last, **values)
        run.fit()
        return run

    return train


def test_twenty_updates_with_dropout_end_in_the_same_weights(train):
    """On processors XLA is off unless it is asked for."""
    plain = train("off")
    assert recorded(plain) == ("off", 2, 8)
    check_same(plain, train("on", xla="on"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "changes"),
    [
        ({"worker_cpu": 2}, {"effective_batch_size": 240}),
        pytest.param({}, {"model": Transformer}, marks=pytest.mark.exhaustive),
        pytest.param({}, {"problems": "forwards-one_word"}, marks=pytest.mark.exhaustive),
    ],
    ids=["replicas and micro-batches", "a Transformer", "two problems"],
)
def test_so_they_do(train, settings, changes):
    check_same(train("off", settings, xla="off", **changes), train("on", settings, xla="on", **changes))


def check_same(plain, compiled):
    assert not plain.step.xla
    assert compiled.step.xla
    expected, found = plain.checkpoint(), compiled.checkpoint()
    assert found.state["data"] == expected.state["data"]
    for path, array in expected.model.items():
        np.testing.assert_allclose(found.model[path], array, **TOLERANCE, err_msg=path)


@pytest.mark.slow
def test_a_run_goes_on_as_it_was_begun_and_may_change_the_compiler_alone(train, caplog):
    """Starts with XLA, resumes with the same command, then without XLA; batches and masks match a run without XLA."""
    caplog.set_level("INFO", logger="t2t")
    chosen = {"fixed_shapes": 0, "fixed_shapes_multiple": 0}
    begun = train("run", last=2, xla="on", **chosen)
    count = len(begun.parts[0].batches.shapes.every())
    assert sum(message.startswith(f"XLA compiles {count} programs") for message in caplog.messages) == 1
    assert recorded(begun) == ("on", 16, 8)
    same = train("run", last=4, **chosen)
    assert same.step.xla
    assert recorded(same) == ("on", 16, 8)
    other = train("run", last=6, xla="off", **chosen)
    assert not other.step.xla
    assert recorded(other) == ("off", 16, 8)
    plain = train("plain", last=6, xla="off", fixed_shapes=16, fixed_shapes_multiple=8)
    check_same(plain, train("run", last=6, xla="on", **chosen))


def recorded(run):
    hparams = RunDir.open(run.folder).record.hparams
    return hparams["train"]["xla"], hparams["batch"]["fixed_shapes"], hparams["batch"]["fixed_shapes_multiple"]


def test_a_model_that_cannot_be_compiled_is_refused_in_one_line(train, make_run, tmp_path):
    """The error comes from the model's declaration or from XLA, before a run directory is created."""

    class Recurrent(make_run.tiny):
        compiles_with_xla = False

        def body(self, features, seed=None):
            hidden_TBD = ops.transpose(super().body(features, seed), (1, 0, 2))
            _, states = scan(lambda state, given: ops.tanh(state + given[0]), hidden_TBD[0], (hidden_TBD,))
            return ops.transpose(states, (1, 0, 2))

    hparams = {"model": Recurrent, "xla": "on"}
    with refused("loops", "--hparams=xla=off"):
        train("run", **hparams)
    Recurrent.compiles_with_xla = True
    with refused("inputs", "targets", "--hparams=xla=off"):
        train("run", **hparams)
    assert not RunDir.exists(tmp_path / "run")
