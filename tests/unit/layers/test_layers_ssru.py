"""The recurrence of the SSRU, by blocks, against a loop over positions in numpy; its gradient against differences."""

import numpy as np
import pytest
import tensorflow as tf

from t2t.layers.ssru import BLOCK, Ssru, linear_recurrence
from tests.builders import numpy, randomise

B, D = 2, 3


def loop(factor_BTD, added_BTD):
    state, states = np.zeros((B, D)), []
    for t in range(factor_BTD.shape[1]):
        state = factor_BTD[:, t] * state + added_BTD[:, t]
        states.append(state)
    return np.stack(states, axis=1)


def drawn(length):
    rng = np.random.default_rng(length)
    return rng.uniform(size=(B, length, D)), rng.normal(size=(B, length, D))


def gradients(factor, added, weights, **settings):
    @tf.function(input_signature=[tf.TensorSpec([None, None, D])] * 3, **settings)
    def call(factor, added, weights):
        with tf.GradientTape() as tape:
            tape.watch([factor, added])
            loss = tf.reduce_sum(weights * linear_recurrence(factor, added))
        return tape.gradient(loss, [factor, added])

    return call(*(tf.constant(x, tf.float32) for x in (factor, added, weights)))


@pytest.mark.parametrize("length", [1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 3])
def test_states_of_blocks_are_those_of_a_loop_over_positions(length):
    factor, added = drawn(length)
    found = linear_recurrence(*(tf.constant(x, tf.float32) for x in (factor, added)))
    np.testing.assert_allclose(numpy(found), loop(factor, added), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("length", "compiled"), [(1, False), (2 * BLOCK + 1, False), (2 * BLOCK + 1, True)])
def test_gradients_are_the_slopes_of_the_loop(length, compiled):
    """Along a direction of each input, by central differences; XLA compiles them, too."""
    given, weights = drawn(length), np.random.default_rng(9).normal(size=(B, length, D))
    for number, gradient in enumerate(gradients(*given, weights, jit_compile=compiled)):
        along = np.random.default_rng(number).normal(size=(B, length, D))
        ends = []
        for step in (1e-5, -1e-5):
            moved = [x + step * along * (n == number) for n, x in enumerate(given)]
            ends.append((weights * loop(*moved)).sum())
        slope = (ends[0] - ends[1]) / 2e-5
        np.testing.assert_allclose((numpy(gradient) * along).sum(), slope, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_16_bit_sequences_have_float32_states(policy):
    layer = Ssru(dtype=policy)
    layer.build((None, None, D))
    randomise(layer)
    half = layer.compute_dtype
    x = tf.cast(np.random.default_rng(0).normal(size=(B, 40, D)), half)
    product = tf.matmul(tf.reshape(x, (-1, D)), tf.cast(layer.kernel.value, half))
    gate, fresh = np.split(numpy(product).reshape(B, 40, 2 * D), 2, axis=-1)
    forget = 1 / (1 + np.exp(-(gate + numpy(tf.cast(layer.gate_bias.value, half)))))
    states = np.maximum(loop(forget, (1 - forget) * fresh), 0)
    same = numpy(layer(x)) == numpy(tf.cast(tf.constant(states, tf.float32), half))
    assert same.mean() > 0.95
