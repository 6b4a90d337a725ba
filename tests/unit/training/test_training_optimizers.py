"""First updates by hand, through the step that applies them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t.hparams.groups import OptimizerHParams
from t2t.models.transformer import Transformer
from t2t.training.optimizers import build_optimizer
from t2t.training.tensorflow.distribute import build_strategy
from t2t.training.tensorflow.step import TensorFlowStep
from t2t.training.weights import ema_arrays, model_arrays, optimizer_arrays
from tests.builders import tiny_hparams, tokens_spec

NAMES = ("adam", "adamw", "adamax", "sgd", "momentum", "adafactor", "lamb")


class Given(keras.Model):
    """A model of a vector and a matrix of ones, whose gradients are given by the batch."""

    def __init__(self):
        super().__init__(name="given")
        self.vector = self.add_weight(name="vector", shape=(2,), initializer="ones")
        self.matrix = self.add_weight(name="matrix", shape=(1, 2), initializer="ones")
        self.built = True

    def body(self, features, seed=None):
        return features["slopes"]

    def loss_sum(self, hidden, targets):
        return tf.reduce_sum(hidden * self.vector) + tf.reduce_sum(hidden * self.matrix[0]), tf.constant(1.0)


def given_step(ema_decay=0.0, **values):
    strategy, hparams = build_strategy(worker_cpu=1), OptimizerHParams(**values)
    with strategy.scope():
        model = Given()
        optimizer = build_optimizer(hparams)
    return TensorFlowStep(model, optimizer, strategy, weight_decay=hparams.decoupled_weight_decay, ema_decay=ema_decay)


def batch_of(gradient):
    return {"slopes": np.array(gradient, np.float32), "targets": np.ones((1, 1), np.int32)}


def updated(gradients, rate, **hparams):
    """Returns (vector, matrix) after one update for each of `gradients`."""
    step = given_step(**hparams)
    for number, gradient in enumerate(gradients, start=1):
        assert bool(step([[batch_of(gradient)]], number, rate).finite)
    assert int(step.optimizer.iterations.numpy()) == len(gradients)
    return np.asarray(step.model.vector), np.asarray(step.model.matrix)[0]


def test_sgd():
    vector, matrix = updated([[0.5, -1.0], [1.0, 0.0]], 0.1, optimizer="sgd")
    np.testing.assert_allclose(vector, [1 - 0.15, 1 + 0.1], rtol=1e-6)
    np.testing.assert_allclose(matrix, vector)


def test_momentum_carries_steps_on():
    """Gradients 0.5, then 1, rate 0.1, momentum 0.9: steps 0.05 and 0.9 * 0.05 + 0.1; with Nesterov 0.9 * 0.05 + 0.05,
    then 0.9 * 0.145 + 0.1 (Sutskever et al. 2013, section 2)."""
    gradients = [[0.5, 0.0], [1.0, 0.0]]
    vector, _ = updated(gradients, 0.1, optimizer="momentum")
    np.testing.assert_allclose(vector, [1 - 0.05 - 0.145, 1.0], rtol=1e-6)
    vector, _ = updated(gradients, 0.1, optimizer="momentum", optimizer_momentum_nesterov=True)
    np.testing.assert_allclose(vector, [1 - 0.095 - 0.2305, 1.0], rtol=1e-6)
    vector, _ = updated(gradients, 0.1, optimizer="momentum", optimizer_momentum_momentum=0.5)
    np.testing.assert_allclose(vector, [1 - 0.05 - 0.125, 1.0], rtol=1e-6)


def test_with_momentum_the_decay_of_matrices_is_part_of_the_gradient():
    """No gradient, decay 0.2, rate 0.1: step 0.1 * 0.2 * 1, then 0.9 * 0.02 + 0.1 * 0.2 * 0.98; vectors stay."""
    vector, matrix = updated([[0.0, 0.0]] * 2, 0.1, optimizer="momentum", weight_decay=0.2)
    np.testing.assert_array_equal(vector, [1.0, 1.0])
    np.testing.assert_allclose(matrix, [1 - 0.02 - 0.0376] * 2, rtol=1e-6)


def test_adams_first_step_is_the_rate_whatever_the_gradient():
    """m / (1 - b1) = g and v / (1 - b2) = g^2, so rate * g / |g| (Kingma and Ba 2015, algorithm 1)."""
    vector, _ = updated([[1e-3, -50.0]], 0.1, optimizer="adam")
    np.testing.assert_allclose(vector, [0.9, 1.1], rtol=1e-5)


def test_adams_first_two_steps_with_a_large_epsilon():
    """b1 0.9, b2 0.98, epsilon 0.1 next to the root of the moment (their section 2); gradients 0.5, then -0.25.

    1: m 0.05, v 0.005, rate * sqrt(0.02) / 0.1 * m / (sqrt(v) + 0.1) = rate * 0.0707107 / 0.1707107 = rate * 0.414214.
    2: m 0.02, v 0.00615, rate * sqrt(0.0396) / 0.19 * 0.02 / (0.0784219 + 0.1) = rate * 0.117402.
    """
    vector, _ = updated([[0.5, 0.0], [-0.25, 0.0]], 0.1, optimizer="adam", optimizer_adam_epsilon=0.1)
    np.testing.assert_allclose(vector, [1 - 0.1 * (0.414214 + 0.117402), 1.0], rtol=1e-5)


def test_adam_is_kerass_own_but_for_rounding():
    """Ten steps of changing gradients from the same start; slots too, under the same names."""
    ours, theirs = (
        build_optimizer(OptimizerHParams(optimizer="adam")),
        keras.optimizers.Adam(learning_rate=0.0, beta_1=0.9, beta_2=0.98, epsilon=1e-9, name="adam"),
    )
    random = np.random.default_rng(0)
    weights = [tf.Variable(random.normal(size=5).astype(np.float32)) for _ in range(2)]
    weights[1].assign(weights[0])
    for optimizer, weight in zip((ours, theirs), weights, strict=True):
        optimizer.build([weight])
    for _ in range(10):
        gradient = tf.constant(random.normal(size=5).astype(np.float32))
        slots = tuple(slot for (slot,) in ours.slots())
        ours.apply_to(weights[0], slots, gradient, tf.constant(0.01), ours.scalars())
        theirs.update_step(gradient, weights[1], tf.constant(0.01))
        for optimizer in (ours, theirs):
            optimizer.iterations.assign_add(1)
    np.testing.assert_allclose(*weights, rtol=1e-5)
    assert [v.path for v in ours.variables] == [v.path for v in theirs.variables]
    for one, other in zip(ours.variables[2:], theirs.variables[2:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_adamaxs_first_three_steps():
    """b1 0.9, b2 0.5; gradients 0.5, -0.25, 0 (Kingma and Ba 2015, algorithm 2).

    1: m 0.05 / 0.1, u 0.5: 1. 2: m 0.02 / 0.19, u 0.25: 0.421053. 3: m 0.018 / 0.271, u 0.125: 0.531365.
    """
    gradients = [[0.5, 0.0], [-0.25, 0.0], [0.0, 0.0]]
    vector, _ = updated(gradients, 0.1, optimizer="adamax", optimizer_adam_beta2=0.5)
    np.testing.assert_allclose(vector, [1 - 0.1 * (1 + 0.421053 + 0.531365), 1.0], rtol=1e-5)


def test_adamax_cuts_each_gradient_by_its_past():
    """With a cut of 2, u is 1e-4 after the first step, 3e-4 after the second, and m is of gradients of that size.

    1: 1e-4, so 1. 2: 2e-4 + 1e-4, m (0.9 * 1e-5 + 3e-5) / 0.19 = 2.052632e-4, u 3e-4: 0.684211.
    The other weight's gradient is below the floor and never cut: u 1e-5 twice, and 1 each time.
    """
    settings = {"optimizer": "adamax", "optimizer_adam_beta2": 0.999, "optimizer_adam_epsilon": 0.0}
    vector, _ = updated([[5.0, 1e-5], [5.0, 1e-5]], 0.1, optimizer_adamax_clip=2.0, **settings)
    np.testing.assert_allclose(vector, [1 - 0.1 * (1 + 0.684211), 1 - 0.1 * (1 + 1)], rtol=1e-4)


def test_the_betas_are_those_of_the_hparams():
    """b1 = 0 forgets: the second step, of gradient 0, moves nothing. With b1 = 0.9 it would go on."""
    vector, _ = updated([[0.5, 0.5], [0.0, 0.0]], 0.1, optimizer_adam_beta1=0.0)
    np.testing.assert_allclose(vector, [0.9, 0.9], rtol=1e-5)
    vector, _ = updated([[0.5, 0.5], [0.0, 0.0]], 0.1)
    assert (vector < 0.85).all()


def test_adamw_decays_matrices_by_rate_times_decay_and_leaves_vectors():
    """Loshchilov and Hutter 2019, algorithm 2: 1 - 0.1 * 0.2 * 1 - 0.1 * 1; biases and gains are vectors."""
    vector, matrix = updated([[0.5, -1.0]], 0.1, weight_decay=0.2, optimizer="adamw")
    np.testing.assert_allclose(vector, [0.9, 1.1], rtol=1e-5)
    np.testing.assert_allclose(matrix, [0.98 - 0.1, 0.98 + 0.1], rtol=1e-5)


def test_lamb_scales_adams_step_to_the_norm_of_the_weights():
    """You et al. 2020, algorithm 2: Adam's first step is (1, -1), of norm sqrt 2 like the weights (1, 1): ratio 1."""
    vector, _ = updated([[0.5, -2.0]], 0.1, optimizer="lamb")
    np.testing.assert_allclose(vector, [0.9, 1.1], rtol=1e-4)


def test_adafactors_first_step():
    """Shazeer and Stern 2018, section 6 and algorithm 4: the first step is g / |g|, its mean square 1, not clipped.

    It is scaled by the root mean square of the weights, here 1, times the rate.
    """
    vector, _ = updated([[0.5, -2.0]], 0.1, optimizer="adafactor")
    np.testing.assert_allclose(vector, [0.9, 1.1], rtol=1e-3)


def test_adafactors_second_step_is_no_longer_than_the_root_of_the_number_of_updates_allows():
    """Equal gradients: u = 1. min(0.8, 1) * RMS(1) leads to 0.2, then min(0.8, 2^-0.5) * RMS(0.2) to 0.2 - 0.141421."""
    vector, matrix = updated([[0.5, 0.5], [0.5, 0.5]], 0.8, optimizer="adafactor")
    np.testing.assert_allclose([*vector, *matrix], 0.2 - 0.141421, rtol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_an_update_that_is_not_applied_changes_nothing(name):
    """Non-finite gradients and warm-ups leave weights, slots and averages bitwise unchanged."""
    step = given_step(optimizer=name, ema_decay=0.9)
    good, bad = batch_of([0.5, -2.0]), batch_of([np.nan, 1.0])
    for update in (1, 2):
        assert bool(step([[good]], update, 0.1).finite)
    before = state_of(step)
    assert not bool(step([[bad]], 3, 0.1).finite)
    step.warm_up([[good]])
    step.warm_up([[good], [good]])
    assert not bool(step([[good], [bad]], 4, 0.1).finite)
    for one, other in zip(before, state_of(step), strict=True):
        np.testing.assert_array_equal(one, other)
    assert step.skipped(4) == 2
    assert bool(step([[good]], 5, 0.1).finite)
    assert not np.array_equal(before[0], state_of(step)[0])


def state_of(step):
    optimizer = optimizer_arrays(step).values()
    return [*model_arrays(step).values(), *optimizer, *ema_arrays(step).values()]


@pytest.mark.parametrize("name", NAMES)
def test_every_slot_has_a_name_of_its_own_that_is_the_same_for_every_optimizer_of_a_process(name):
    found = []
    for _ in range(2):
        strategy = build_strategy(worker_cpu=1)
        with strategy.scope():
            model = Transformer(tiny_hparams(num_hidden_layers=1), tokens_spec())
            step = TensorFlowStep(model, build_optimizer(OptimizerHParams(optimizer=name)), strategy)
        found.append(optimizer_arrays(step))
    one, other = found
    assert list(one) == list(other)
    assert len(one) == len(step.optimizer.variables) - 1  # all but the learning rate
