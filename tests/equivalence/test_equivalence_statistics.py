"""Moving statistics of batch norms: their updates, and exact resuming.

Legend: B batch.
"""

import functools

import keras
import numpy as np
import pytest
from keras import ops

from t2t.hparams.groups import OptimizerHParams
from t2t.layers.batch_norm import BatchNorm
from t2t.specs.features import ProblemSpec
from t2t.training.engine_choice import training_engine
from t2t.training.optimizers import build_optimizer
from t2t.training.weights import model_arrays
from tests.builders import copies, numpy
from tests.equivalence.identity import assert_same, differing

# Two examples with mean 1 and variance 1; four with mean 6 and variance 4.
TWO, FOUR = [0.0, 2.0], [4.0, 4.0, 8.0, 8.0]


class Normed(keras.Model):
    """Normalizes one number per example; the loss is a sum."""

    def __init__(self):
        super().__init__(name="normed")
        self.spec, self.longest_sequence = ProblemSpec(name="normed", features={}), None
        self.norm = BatchNorm(name="norm")
        self.norm.build((None, 1))
        self.built = True

    def body(self, features, seed=None):
        return self.norm(features["inputs"], seed=seed)

    def loss_sum(self, hidden, targets):
        return ops.sum(hidden * ops.cast(targets, "float32")), ops.cast(ops.size(targets), "float32")


def batch_of(numbers):
    return {"inputs": np.array(numbers, np.float32)[:, None], "targets": np.ones((len(numbers), 1), np.int32)}


def step_of(replicas=1, optimizer="momentum"):
    devices = training_engine().devices(worker_cpu=replicas)
    with devices.scope():
        model, rule = Normed(), build_optimizer(OptimizerHParams(optimizer=optimizer))
    return training_engine().update_step(model, rule, devices)


def moments(step):
    """Returns the moving mean and variance; checks that they are the same on every replica."""
    found = []
    for variable in (step.model.norm.moving_mean, step.model.norm.moving_variance):
        values = {float(value[0]) for value in copies(variable)}
        assert len(values) == 1
        found += values
    return found


def micro_batches(cut):
    two, four = batch_of(TWO), batch_of(FOUR)
    return {"replicas": [[two, four]], "micro-batches": [[two], [four]], "both": [[two, four], [four, two]]}[cut]


@pytest.mark.parametrize(
    ("cut", "optimizer"), [("replicas", "momentum"), ("micro-batches", "adam"), ("both", "momentum"), ("both", "adam")]
)
def test_moving_moments_move_by_the_mean_of_the_parts_weighted_by_their_examples(cut, optimizer):
    """Means (2 * 1 + 4 * 6) / 6 = 13 / 3 and variances (2 * 1 + 4 * 4) / 6 = 3, added once with weight 0.1.

    An update that is not applied leaves them as they are, and so does a warm-up.
    """
    step, parts = step_of(1 if cut == "micro-batches" else 2, optimizer), micro_batches(cut)
    assert bool(step(parts, 1, 0.0).finite)
    np.testing.assert_allclose(moments(step), [0.1 * 13 / 3, 0.9 + 0.1 * 3], rtol=1e-6)
    before = model_arrays(step)
    bad = [[batch_of([np.nan, 1.0]) for _ in batches] for batches in parts]
    assert not bool(step(bad, 2, 0.1).finite)
    step.warm_up(parts)
    assert_same(model_arrays(step), before)
    assert bool(step(parts, 3, 0.0).finite)  # the sums of the second update were discarded
    np.testing.assert_allclose(moments(step), [0.19 * 13 / 3, 0.81 + 0.19 * 3], rtol=1e-6)
    expected = (np.array(TWO) - 0.19 * 13 / 3) / np.sqrt(0.81 + 0.19 * 3 + 1e-5)
    np.testing.assert_allclose(numpy(step.model.body(batch_of(TWO)))[:, 0], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "changes"),
    [
        pytest.param({}, {}, id="plain", marks=pytest.mark.slow),
        pytest.param(
            {"worker_cpu": 2},
            {"effective_batch_size": 240, "optimizer": "momentum"},
            id="two replicas, accumulation, momentum",
        ),
    ],
)
def test_a_resumed_run_has_the_same_statistics_and_evaluating_changes_none(make_run, tmp_path, settings, changes):
    """The run that is resumed is not evaluated any more."""

    class NormedAveraging(make_run.tiny):
        def build(self, input_shape=None):
            super().build(input_shape)
            self.norm = BatchNorm(dtype=self.dtype_policy, name="norm")
            self.norm.build((None, None, self.hparams.hidden_size))

        def body(self, features, seed=None):
            return self.norm(super().body(features, seed=seed), seed=seed)

    make = functools.partial(make_run, model=NormedAveraging, problems="forwards", train_steps=4)
    run = make(tmp_path / "run", {**settings, "eval_steps": 2}, **changes)
    run.copy_after(2, tmp_path / "copy")
    run.fit()
    resumed = make(tmp_path / "copy", settings, **changes)
    halfway = resumed.checkpoint()
    assert halfway.step == 2
    resumed.fit()
    whole = run.checkpoint().model
    statistics = {path for path in whole if "/moving_" in path}
    assert len(statistics) == 2
    assert statistics <= differing(halfway.model, whole)
    assert_same(resumed.checkpoint().model, whole)
