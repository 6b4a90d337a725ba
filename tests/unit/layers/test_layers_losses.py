import math

import numpy as np
import pytest
import tensorflow as tf

from t2t.layers.losses import class_cross_entropy, token_weights
from tests.builders import numpy
from tests.reference.transformer import smoothed_loss


def test_by_hand():
    """Logits (0, ln 3): p = (1/4, 3/4). Smoothing 0.1 wants (0.05, 0.95): -0.05 ln(1/4) - 0.95 ln(3/4) = 0.3426."""
    loss = class_cross_entropy(np.array([[0.0, math.log(3.0)]], np.float32), np.array([1]), 0.1)
    np.testing.assert_allclose(loss, [0.342613], rtol=1e-5)
    assert abs(-0.05 * math.log(0.25) - 0.95 * math.log(0.75) - 0.342613) < 1e-6


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_knowing_nothing_costs_the_logarithm_of_the_vocabulary(smoothing):
    loss = class_cross_entropy(np.zeros((2, 3, 50), np.float32), np.full((2, 3), 7), smoothing)
    np.testing.assert_allclose(loss, np.full((2, 3), math.log(50)), rtol=1e-6)


def test_others_by_hand():
    """Logits (0, ln 2, 0): p = (1/4, 1/2, 1/4). The others share 0.2: -0.2 ln(1/4) - 0.8 ln(1/2) = 0.831777."""
    logits = np.array([[0.0, math.log(2.0), 0.0]], np.float32)
    np.testing.assert_allclose(class_cross_entropy(logits, np.array([1]), 0.2, "others"), [0.831777], rtol=1e-5)


@pytest.mark.parametrize("kind", ["all", "others"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9, 0.99])
def test_against_the_distribution_written_out(smoothing, kind):
    rng = np.random.default_rng(0)
    logits, targets = rng.normal(0.0, 3.0, (20, 11)), rng.integers(1, 11, 20)
    found = class_cross_entropy(logits.astype(np.float32), targets, smoothing, kind)
    expected = [smoothed_loss([row], [target], smoothing, kind) for row, target in zip(logits, targets, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("kind", ["all", "others"])
def test_a_single_class_is_certain(kind):
    loss = class_cross_entropy(np.full((2, 1), 3.0, np.float32), [0, 0], 0.1, kind)
    np.testing.assert_allclose(loss, [0.0, 0.0], atol=1e-6)


def test_padding_weighs_nothing():
    np.testing.assert_array_equal(token_weights(np.array([[4, 1, 0]])), [[1.0, 1.0, 0.0]])


def test_large_logits_neither_overflow_nor_lose_the_loss():
    logits = np.array([[1000.0, 0.0, -1000.0]], np.float32)
    np.testing.assert_allclose(class_cross_entropy(logits, np.array([1]), 0.0), [1000.0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_losses_are_float32_whatever_the_logits(dtype):
    """A sum of 30,000 equal terms would stall at 2,048 in float16 and at 256 in bfloat16."""
    loss = class_cross_entropy(tf.zeros((1, 30_000), dtype), np.array([5]), 0.1)
    assert loss.dtype == tf.float32
    np.testing.assert_allclose(loss, [math.log(30_000)], rtol=1e-5)


def test_the_gradient_is_what_is_predicted_minus_what_is_wanted():
    logits = tf.constant([[0.0, math.log(3.0), 0.0]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = tf.reduce_sum(class_cross_entropy(logits, np.array([1]), 0.3))
    # p = (1/5, 3/5, 1/5); wanted 0.1, 0.8, 0.1
    np.testing.assert_allclose(numpy(tape.gradient(loss, logits)), [[0.1, -0.2, 0.1]], atol=1e-6)
