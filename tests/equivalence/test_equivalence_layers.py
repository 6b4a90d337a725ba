"""Layers that do otherwise in training: dropout masks depend on seed and place alone, moving statistics on examples.

Legend: B batch, P places, i.e. pairs of micro-batch and replica, L layers, N values of a mask.
"""

import functools
import itertools

import keras
import numpy as np
import pytest
from keras import ops

from t2t.layers.dropout import Dropout
from t2t.layers.norm import BatchNorm
from t2t.models.transformer import Transformer
from t2t.specs.features import ProblemSpec
from t2t.training.weights import model_arrays
from tests.builders import copies, numpy, randomise, tiny_hparams, tokens_spec
from tests.equivalence.identity import assert_same, differing
from tests.slopes import step_of

# === Dropout masks are a function of (run seed, update, micro-batch, replica, layer) only ===

RATE, VALUES, REPLICAS, MICRO_BATCHES = 0.4, 500, 2, 2


class Masks(keras.Model):
    """Two dropout layers on ones. Each batch contains its place; the gradient of `w` at that place is its masks."""

    def __init__(self):
        super().__init__(name="masks")
        self.spec, self.longest_sequence = ProblemSpec(name="masks", features={}), None
        self.dropouts = [Dropout(RATE, name=name) for name in ("one", "other")]
        self.w = self.add_weight(name="w", shape=(REPLICAS * MICRO_BATCHES, 2, VALUES), initializer="zeros")
        for layer in self.dropouts:
            layer.build()
        self.built = True

    def body(self, features, seed=None):
        masks = ops.stack([layer(ops.ones((VALUES,)), seed=seed) for layer in self.dropouts])
        return ops.sum(ops.take(self.w, features["place"][0], axis=0) * masks)

    def loss_sum(self, hidden, targets):
        return hidden, ops.convert_to_tensor(1.0)


class Updates:
    """Computes the masks of any update of a run."""

    def __init__(self, seed):
        self.step = step_of(Masks, REPLICAS, run_seed=seed)
        self.model = self.step.model

    def masks(self, update):
        """Returns the masks of an update, (P, L, N): the values by which it multiplied."""
        self.model.w.assign(ops.zeros(self.model.w.shape))
        place = itertools.count()
        one = [
            [
                {"place": np.array([next(place)], np.int32), "targets": np.ones((1, 1), np.int32)}
                for _ in range(REPLICAS)
            ]
            for _ in range(MICRO_BATCHES)
        ]
        self.step(one, update, 1.0)
        return -np.asarray(self.model.w) * REPLICAS * MICRO_BATCHES  # a token each


@pytest.fixture(scope="module")
def run():
    return Updates(seed=5)


def test_masks_differ_by_replica_micro_batch_layer_and_update(run):
    """Two independent masks agree in 0.6^2 + 0.4^2 = 52 % of the values; the standard deviation is 2.2 %."""
    masks = np.concatenate([run.masks(update).reshape(-1, VALUES) for update in (1, 2)]) > 0
    assert len(masks) == REPLICAS * MICRO_BATCHES * 2 * 2
    agreement = [(one == other).mean() for one, other in itertools.combinations(masks, 2)]
    assert min(agreement) > 0.52 - 0.11
    assert max(agreement) < 0.52 + 0.11


def test_masks_of_an_update_depend_on_the_seed_but_not_on_those_before_it_nor_on_the_process(run):
    run.masks(update=1)
    third = run.masks(update=3)
    np.testing.assert_array_equal(run.masks(update=3), third)
    np.testing.assert_array_equal(Updates(seed=5).masks(update=3), third)
    assert 0.4 < (Updates(seed=6).masks(update=3) == third).mean() < 0.64


# === In the Transformer ===
@pytest.fixture(scope="module")
def model():
    dropouts = {"layer_prepostprocess_dropout": 0.3, "attention_dropout": 0.2, "relu_dropout": 0.25}
    return randomise(Transformer(tiny_hparams(**dropouts), tokens_spec()))


def layers_of(model):
    return [layer for layer in model._flatten_layers() if isinstance(layer, Dropout)]


def test_every_dropout_layer_has_a_number_of_its_own_that_is_the_same_in_every_model(model):
    numbers = [layer.salt for layer in layers_of(model)]
    # Tokens and embedding sums of both sides; in each of two layers two for every attention and every feed-forward.
    assert len(numbers) == 4 + 2 * (2 + 2) + 2 * (2 + 2 + 2)
    assert len(set(numbers)) == len(numbers)
    again = Transformer(model.hparams, tokens_spec())
    assert [layer.salt for layer in layers_of(again)] == numbers


@pytest.mark.parametrize(
    ("hparam", "layers"),
    [
        ("layer_prepostprocess_dropout", {"source_dropout", "target_dropout", "_residual/dropout"}),
        ("attention_dropout", {"attention/dropout"}),
        ("relu_dropout", {"ffn/dropout"}),
    ],
)
def test_where_each_rate_applies(hparam, layers):
    rates = {"layer_prepostprocess_dropout": 0.0, hparam: 0.5}
    model = Transformer(tiny_hparams(**rates), tokens_spec())
    active = {layer.path for layer in layers_of(model) if layer.rate == 0.5}
    assert active == {layer.path for layer in layers_of(model) if any(layer.path.endswith(name) for name in layers)}
    assert active


# === Moving statistics of batch norms: their updates, and exact resuming ===

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
    step, parts = step_of(Normed, 1 if cut == "micro-batches" else 2, optimizer), micro_batches(cut)
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


def test_a_resumed_run_has_the_same_statistics_and_evaluating_changes_none(make_run, tmp_path):
    """With two replicas and two micro-batches; the run that is resumed is not evaluated any more."""

    class NormedAveraging(make_run.tiny):
        def build(self, input_shape=None):
            super().build(input_shape)
            self.norm = BatchNorm(dtype=self.dtype_policy, name="norm")
            self.norm.build((None, None, self.hparams.hidden_size))

        def body(self, features, seed=None):
            return self.norm(super().body(features, seed=seed), seed=seed)

    changes = {"effective_batch_size": 240, "optimizer": "momentum", "train_steps": 4}
    make = functools.partial(make_run, model=NormedAveraging, problems="forwards", **changes)
    run = make(tmp_path / "run", {"worker_cpu": 2, "eval_steps": 2})
    run.copy_after(2, tmp_path / "copy")
    run.fit()
    resumed = make(tmp_path / "copy", {"worker_cpu": 2})
    halfway = resumed.checkpoint()
    assert halfway.step == 2
    resumed.fit()
    whole = run.checkpoint().model
    statistics = {path for path in whole if "/moving_" in path}
    assert len(statistics) == 2
    assert statistics <= differing(halfway.model, whole)
    assert_same(resumed.checkpoint().model, whole)
