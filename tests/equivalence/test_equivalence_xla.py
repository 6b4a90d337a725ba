"""Updates with and without XLA are equal up to rounding; all programs are compiled before the first update."""

import numpy as np
import pytest
from keras import ops

from t2t.checkpoints.run_dir import RunDir
from t2t.layers.loops import scan
from t2t.models.transformer import Transformer
from tests.errors import refused

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
        run = make_run(tmp_path / folder, {"eval_every": 2, **(settings or {})}, train_steps=last, **values)
        run.fit()
        return run

    return train


def test_twenty_updates_with_dropout_end_in_the_same_weights(train):
    check_same(train("off", xla="off"), train("on", xla="on"))


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
    for path, weights in expected.model.items():
        np.testing.assert_allclose(found.model[path], weights, **TOLERANCE, err_msg=path)


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


def test_on_processors_and_by_itself_it_is_off(train):
    run = train("run", last=1)
    assert not run.step.xla
    assert recorded(run) == ("off", 2, 8)


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
