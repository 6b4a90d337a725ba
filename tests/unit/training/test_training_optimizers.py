"""First updates by hand, through the step that applies them, and learning rates."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t.backends import backend
from t2t.hparams.base import HParams
from t2t.hparams.groups import OptimizerHParams
from t2t.models.transformer import Transformer
from t2t.registry import OPTIMIZERS, SCHEDULES
from t2t.registry.overrides import PluginError
from t2t.training.optimizers import build_optimizer
from t2t.training.schedules import learning_rate
from t2t.training.step import UpdateStep
from t2t.training.weights import ema_arrays, model_arrays, optimizer_arrays, slots_of_weights
from tests.builders import tiny_hparams, tokens_spec
from tests.errors import refused
from tests.registrations import registered

NAMES = ("adam", "adamw", "adamax", "sgd", "momentum", "adafactor", "lamb", "muon")


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


def step_of(build_model, ema_decay=0.0, **values):
    devices, hparams = backend().devices(worker_cpu=1), OptimizerHParams(**values)
    with devices.scope():
        model = build_model()
        optimizer = build_optimizer(hparams)
    return UpdateStep(model, optimizer, devices, weight_decay=hparams.decoupled_weight_decay, ema_decay=ema_decay)


def batch_of(gradient):
    return {"slopes": np.array(gradient, np.float32), "targets": np.ones((1, 1), np.int32)}


BY_HAND = {
    "sgd": ({}, 0.1, [[0.5, -1.0], [1.0, 0.0]], [1 - 0.15, 1 + 0.1], None, 1e-6),
    # Gradients 0.5, then 1, rate 0.1, momentum 0.9: steps 0.05 and 0.9 * 0.05 + 0.1; with Nesterov 0.9 * 0.05 + 0.05,
    # then 0.9 * 0.145 + 0.1 (Sutskever et al. 2013, section 2).
    "momentum": ({}, 0.1, [[0.5, 0.0], [1.0, 0.0]], [1 - 0.05 - 0.145, 1.0], None, 1e-6),
    "momentum of Nesterov": (
        {"optimizer_momentum_nesterov": True}, 0.1, [[0.5, 0.0], [1.0, 0.0]], [1 - 0.095 - 0.2305, 1.0], None, 1e-6,
    ),
    "momentum 0.5": (
        {"optimizer_momentum_momentum": 0.5}, 0.1, [[0.5, 0.0], [1.0, 0.0]], [1 - 0.05 - 0.125, 1.0], None, 1e-6,
    ),
    # The decay of matrices is part of the gradient: decay 0.2, rate 0.1: step 0.1 * 0.2 * 1, then 0.9 * 0.02 + 0.1 *
    # 0.2 * 0.98; vectors stay.
    "momentum with decay": ({"weight_decay": 0.2}, 0.1, [[0.0, 0.0]] * 2, [1.0, 1.0], [1 - 0.02 - 0.0376] * 2, 1e-6),
    # The first step is the rate, whatever the gradient: m / (1 - b1) = g and v / (1 - b2) = g^2, so rate * g / |g|
    # (Kingma and Ba 2015, algorithm 1).
    "adam, first step": ({}, 0.1, [[1e-3, -50.0]], [0.9, 1.1], None, 1e-5),
    # b1 0.9, b2 0.98, epsilon 0.1 next to the root of the moment (their section 2); gradients 0.5, then -0.25.
    # 1: m 0.05, v 0.005, rate * sqrt(0.02) / 0.1 * m / (sqrt(v) + 0.1) = rate * 0.0707107 / 0.1707107.
    # 2: m 0.02, v 0.00615, rate * sqrt(0.0396) / 0.19 * 0.02 / (0.0784219 + 0.1) = rate * 0.117402.
    "adam with a large epsilon": (
        {"optimizer_adam_epsilon": 0.1}, 0.1, [[0.5, 0.0], [-0.25, 0.0]], [1 - 0.1 * (0.414214 + 0.117402), 1.0], None,
        1e-5,
    ),
    # b1 = 0 forgets: the second step, of gradient 0, moves nothing. With b1 = 0.9 it goes on: m 0.045, v 0.0049, rate *
    # sqrt(0.0396) / 0.19 * 0.045 / 0.07 = rate * 0.673299.
    "adam without b1": ({"optimizer_adam_beta1": 0.0}, 0.1, [[0.5, 0.5], [0.0, 0.0]], [0.9, 0.9], None, 1e-5),
    "adam, second step": ({}, 0.1, [[0.5, 0.5], [0.0, 0.0]], [1 - 0.1 * (1 + 0.673299)] * 2, None, 1e-5),
    # b1 0.9, b2 0.5; gradients 0.5, -0.25, 0 (Kingma and Ba 2015, algorithm 2).
    # 1: m 0.05 / 0.1, u 0.5: 1. 2: m 0.02 / 0.19, u 0.25: 0.421053. 3: m 0.018 / 0.271, u 0.125: 0.531365.
    "adamax": (
        {"optimizer_adam_beta2": 0.5}, 0.1, [[0.5, 0.0], [-0.25, 0.0], [0.0, 0.0]],
        [1 - 0.1 * (1 + 0.421053 + 0.531365), 1.0], None, 1e-5,
    ),
    # With a cut of 2, u is 1e-4 after the first step, 3e-4 after the second, and m is of gradients of that size.
    # 1: 1e-4, so 1. 2: 2e-4 + 1e-4, m (0.9 * 1e-5 + 3e-5) / 0.19 = 2.052632e-4, u 3e-4: 0.684211.
    # The other weight's gradient is below the floor and never cut: u 1e-5 twice, and 1 each time.
    "adamax that cuts each gradient by its past": (
        {"optimizer_adam_beta2": 0.999, "optimizer_adam_epsilon": 0.0, "optimizer_adamax_clip": 2.0}, 0.1,
        [[5.0, 1e-5], [5.0, 1e-5]], [1 - 0.1 * (1 + 0.684211), 1 - 0.1 * (1 + 1)], None, 1e-4,
    ),
    # Loshchilov and Hutter 2019, algorithm 2: 1 - 0.1 * 0.2 * 1 - 0.1 * 1; biases and gains are vectors.
    "adamw": ({"weight_decay": 0.2}, 0.1, [[0.5, -1.0]], [0.9, 1.1], [0.98 - 0.1, 0.98 + 0.1], 1e-5),
    # You et al. 2020, algorithm 2: Adam's first step is (1, -1), of norm sqrt 2 like the weights (1, 1): ratio 1.
    "lamb": ({}, 0.1, [[0.5, -2.0]], [0.9, 1.1], None, 1e-4),
    # Shazeer and Stern 2018, section 6 and algorithm 4: the first step is g / |g|, its mean square 1, not clipped, and
    # scaled by the root mean square of the weights, here 1, times the rate.
    "adafactor, first step": ({}, 0.1, [[0.5, -2.0]], [0.9, 1.1], None, 1e-3),
    # The second step is no longer than the root of the number of updates allows. Equal gradients: u = 1.
    # min(0.8, 1) * RMS(1) leads to 0.2, then min(0.8, 2^-0.5) * RMS(0.2) to 0.2 - 0.141421.
    "adafactor, second step": ({}, 0.8, [[0.5, 0.5]] * 2, [0.2 - 0.141421] * 2, None, 1e-4),
}  # fmt: skip
"""Name that begins with the optimizer's -> hparams, rate, gradients, vector, matrix if it differs, tolerance."""


@pytest.mark.parametrize("name", BY_HAND)
def test_first_updates_by_hand(name):
    hparams, rate, gradients, vector, matrix, rtol = BY_HAND[name]
    step = step_of(Given, optimizer=name.replace(",", " ").split()[0], **hparams)
    for number, gradient in enumerate(gradients, start=1):
        assert bool(step([[batch_of(gradient)]], number, rate).finite)
    assert int(step.optimizer.iterations.numpy()) == len(gradients)
    np.testing.assert_allclose(np.asarray(step.model.vector), vector, rtol=rtol)
    np.testing.assert_allclose(np.asarray(step.model.matrix)[0], vector if matrix is None else matrix, rtol=rtol)


class Matrices(keras.Model):
    """A model of two matrices of ones, one of them an embedding, whose gradient the batch has."""

    def __init__(self):
        super().__init__(name="matrices")
        self.inner, self.embedding = (
            self.add_weight(name=name, shape=(3, 2), initializer="ones") for name in ("inner", "embedding")
        )
        self.built = True

    def body(self, features, seed=None):
        return features["slopes"]

    def loss_sum(self, hidden, targets):
        return tf.reduce_sum(hidden * (self.inner + self.embedding)), tf.constant(1.0)


def test_muon_orthogonalizes_the_steps_of_matrices_and_leaves_embeddings_to_adamw():
    """Jordan et al. 2024: five steps of Newton and Schulz; Liu et al. 2025 (arXiv:2502.16982): the scale and decay."""
    gradients = np.random.default_rng(0).normal(size=(2, 3, 2)).astype(np.float32)
    hparams = {"weight_decay": 0.2, "optimizer_adam_beta2": 0.9}
    muon, adamw = (step_of(Matrices, optimizer=name, **hparams) for name in ("muon", "adamw"))
    weight, past = np.ones((3, 2)), np.zeros((3, 2))
    for number, gradient in enumerate(gradients, start=1):
        for step in (muon, adamw):
            step([[batch_of(gradient)]], number, 0.1)
        past = 0.95 * past + gradient
        x = (gradient + 0.95 * past).T  # Nesterov's momentum; the smaller side first
        x /= np.linalg.norm(x)
        for _ in range(5):
            x = 3.4445 * x + (-4.775 * x @ x.T + 2.0315 * (x @ x.T) @ (x @ x.T)) @ x
        weight = weight - 0.1 * 0.2 * weight - 0.1 * 0.2 * np.sqrt(3) * x.T  # 0.2 for the decay, and for the scale
    np.testing.assert_allclose(np.asarray(muon.model.inner), weight, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(muon.model.embedding), np.asarray(adamw.model.embedding), rtol=1e-5)


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


def state_of(step):
    optimizer = optimizer_arrays(step).values()
    return [*model_arrays(step).values(), *optimizer, *ema_arrays(step).values()]


@pytest.mark.parametrize("name", NAMES)
def test_an_update_that_is_not_applied_changes_nothing(name):
    """Non-finite gradients and warm-ups leave weights, slots and averages bitwise unchanged."""
    step = step_of(Given, optimizer=name, ema_decay=0.9)
    good, bad = batch_of([0.5, -2.0]), batch_of([np.nan, 1.0])
    for update in (1, 2):
        assert bool(step([[good]], update, 0.1).finite)
    before = state_of(step)
    assert not bool(step([[bad]], 3, 0.1).finite)
    step.warm_up([[good]])
    last = 3
    if name == "adam":  # what is done with the sum of micro-batches is the same for every optimizer
        step.warm_up([[good], [good]])
        last = 4
        assert not bool(step([[good], [bad]], last, 0.1).finite)
    for one, other in zip(before, state_of(step), strict=True):
        np.testing.assert_array_equal(one, other)
    assert step.skipped(last) == last - 2
    assert bool(step([[good]], 5, 0.1).finite)
    assert not np.array_equal(before[0], state_of(step)[0])


@pytest.mark.parametrize("name", NAMES)
def test_every_slot_has_a_name_of_its_own_that_is_the_same_for_every_optimizer_of_a_process(name):
    def build():
        return Transformer(tiny_hparams(num_hidden_layers=1), tokens_spec())

    steps = [step_of(build, optimizer=name) for _ in range(2)]
    one, other = map(optimizer_arrays, steps)
    assert list(one) == list(other)
    assert len(one) == len(steps[0].optimizer.variables) - 1  # all but the learning rate


def test_slots_that_belong_to_no_weight_are_named():
    step = step_of(Given, optimizer="adam")
    assert {path: [*slots] for path, slots in slots_of_weights(step).items()} == {
        f"given/{name}": [f"adam/given_{name}_{slot}" for slot in ("momentum", "velocity")]
        for name in ("vector", "matrix")
    }
    with refused("adam:", "adam/given_vector_momentum"):
        slots_of_weights(SimpleNamespace(optimizer=step.optimizer, trained=step.trained[1:]))


def no_optimizer(hparams, **common):
    return hparams.optimizer


def nameless(hparams, learning_rate, name):
    return keras.optimizers.SGD(learning_rate)


def decays(hparams, **common):
    return keras.optimizers.SGD(**common, weight_decay=0.1)


@pytest.mark.parametrize(("function", "about"), [(no_optimizer, "str"), (nameless, "sgd"), (decays, "weight_decay")])
def test_an_optimizer_that_would_not_do_what_it_says_is_refused(function, about):
    with registered(OPTIMIZERS, "mine", function), refused(function.__name__, about, by=PluginError):
        build_optimizer(OptimizerHParams(optimizer="mine"))


@pytest.mark.parametrize("found", [-0.1, float("nan"), "much"])
def test_a_schedule_that_returns_no_rate_is_refused(found):
    with registered(SCHEDULES, "mine", lambda hparams, update: found), refused("update", by=PluginError):
        rate(3, "mine", 1.0, 0)


# === Learning rates by hand ===
def rate(update, shape, factor, warmup, minimum=0.0, hidden_size=512, train_steps=100_000):
    hparams = HParams(
        learning_rate_schedule=shape, learning_rate=factor, learning_rate_warmup_steps=warmup,
        learning_rate_minimum=minimum, hidden_size=hidden_size, train_steps=train_steps,
    )  # fmt: skip
    return learning_rate(hparams, update)


RATES = {
    # 512^-0.5 = 0.0441942; 4000^-1.5 = 3.95285e-6; at 4000 0.0441942 / sqrt(4000): the peak that the paper's base model
    # has
    "noam": ("noam", 1.0, 4000, 0.0, {1: 1.746928e-7, 100: 1.746928e-5, 4000: 6.987712e-4, 100_000: 1.397542e-4}),
    # min(0.01, s^-0.5), the relative steps of Adafactor: Shazeer and Stern 2018, algorithm 6
    "rsqrt_decay": (
        "rsqrt_decay", 1.0, 10_000, 0.0,
        {update: min(1e-2, update**-0.5) for update in (1, 100, 4000, 9_999, 10_000, 10_001, 100_000, 250_000)},
    ),
    "inverse_sqrt": (
        "inverse_sqrt", 0.005, 2000, 0.0,
        {1: 2.5e-6, 100: 2.5e-4, 4000: 0.005 * 0.70710678, 100_000: 0.005 * 0.14142136},
    ),
    "constant": ("constant", 0.1, 4000, 0.0, {1: 2.5e-5, 100: 2.5e-3, 4000: 0.1, 100_000: 0.1}),
    # 4,000 + 24,000 of 96,000 updates, and 4,000 + 48,000: 1e-4 + 0.0019 times what is left
    "linear": (
        "linear", 0.002, 4000, 1e-4,
        {1: 5e-7, 100: 5e-5, 4000: 0.002, 28_000: 1e-4 + 0.0019 * 0.75, 52_000: 1e-4 + 0.0019 * 0.5, 100_000: 1e-4,
         150_000: 1e-4},
    ),
    "cosine": (
        "cosine", 0.002, 4000, 1e-4,
        {1: 5e-7, 100: 5e-5, 4000: 0.002, 28_000: 1e-4 + 0.0019 * (1 + 0.70710678) / 2, 52_000: 1e-4 + 0.0019 * 0.5,
         100_000: 1e-4, 150_000: 1e-4},
    ),
}  # fmt: skip
"""Name -> shape, factor, warm-up, minimum, and rates by update."""


@pytest.mark.parametrize(("shape", "factor", "warmup", "minimum", "expected"), RATES.values(), ids=RATES)
def test_rates_by_hand(shape, factor, warmup, minimum, expected):
    for update, wanted in expected.items():
        assert rate(update, shape, factor, warmup, minimum) == pytest.approx(wanted, rel=1e-6)
        if shape == "noam":
            assert rate(update, shape, 2 * factor, warmup) == pytest.approx(2 * wanted, rel=1e-6)
            assert rate(update, shape, factor, warmup, hidden_size=128) == pytest.approx(2 * wanted, rel=1e-6)


@pytest.mark.parametrize("shape", ["noam", "inverse_sqrt", "constant", "linear", "cosine"])
def test_warm_up_meets_what_follows_and_never_exceeds_it(shape):
    peak = rate(400, shape, 0.5, 400)
    assert rate(399, shape, 0.5, 400) == pytest.approx(peak * 399 / 400, rel=1e-6)
    assert max(rate(update, shape, 0.5, 400) for update in range(1, 2000, 7)) <= peak
    if shape != "noam":
        assert rate(1, shape, 0.5, 0) == 0.5, "without warm-up"
    if shape in ("linear", "cosine"):
        assert rate(10, shape, 0.5, 100, train_steps=10) == pytest.approx(0.05), "a run shorter than its warm-up rises"
