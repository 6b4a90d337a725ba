"""The output layer's loss by blocks, compared with the loss of whole logits and with explicit float64 formulas.

Legend: N positions, D width, V vocabulary.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t.layers.losses import class_cross_entropy, token_weights
from t2t.layers.output_loss import BLOCKS, linear_cross_entropy
from tests.builders import largest_within

V, D = 50, 8
BLOCK = BLOCKS["cpu"]


def example(positions, seed=0):
    random = np.random.default_rng(seed)
    hidden = random.normal(size=(positions, D)).astype(np.float32) * 2
    kernel = random.normal(size=(V, D)).astype(np.float32)
    targets = random.integers(0, V, size=positions).astype(np.int32)  # 0 is padding
    return hidden, kernel, targets


def written_out(hidden, kernel, targets, smoothing, kind, weights=None):
    """The loss and its gradients in float64, with the target distribution and the softmax as matrices."""
    hidden, kernel = hidden.astype(np.float64), kernel.astype(np.float64)
    others = smoothing / (V - 1) if kind == "others" else smoothing / V
    wanted = np.full((len(targets), V), others)
    wanted[np.arange(len(targets)), targets] += 1 - smoothing - (others if kind == "others" else 0)
    logits = hidden @ kernel.T
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    weights = (targets != 0 if weights is None else weights)[:, None]
    slope = weights * (np.exp(log_probs) - wanted)
    return -(weights * wanted * log_probs).sum(), slope @ kernel, slope.T @ hidden


def found(hidden, kernel, targets, smoothing, kind, upstream=1.0, weights=None):
    hidden, kernel = tf.Variable(hidden), tf.Variable(kernel)
    with tf.GradientTape() as tape:
        loss = linear_cross_entropy(hidden, kernel, targets, smoothing, kind, weights)
        scaled = upstream * loss
    return loss, *tape.gradient(scaled, [hidden, kernel])


@pytest.mark.parametrize("kind", ["all", "others"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("positions", [1, 7, BLOCK, BLOCK + 1, 2 * BLOCK + 3])
def test_loss_and_gradients_are_those_written_out(positions, smoothing, kind):
    data = example(positions)
    expected = written_out(*data, smoothing, kind)
    for one, other in zip(found(*data, smoothing, kind), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-4)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_positions_may_have_weights_of_any_sign(smoothing):
    data = example(BLOCK + 3)
    weights = np.random.default_rng(1).normal(size=BLOCK + 3).astype(np.float32)
    expected = written_out(*data, smoothing, "all", weights)
    for one, other in zip(found(*data, smoothing, "all", weights=weights), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize("most", [1, 4, 23, 100])
def test_any_size_of_blocks_gives_the_same(most, monkeypatch):
    data = example(23)
    monkeypatch.setitem(BLOCKS, "cpu", most)
    for one, other in zip(found(*data, 0.1, "all"), written_out(*data, 0.1, "all"), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-4)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_gradients_of_learnt_tokens_are_not_lost_in_16_bits(dtype, smoothing):
    """Their targets are at 0.995, so that the softmax and the target nearly cancel."""
    random = np.random.default_rng(0)
    kernel = random.normal(size=(1000, 64)).astype(np.float32) / 8
    targets = random.integers(1, 1000, size=BLOCK + 3).astype(np.int32)
    directions = kernel[targets] / np.linalg.norm(kernel[targets], axis=1, keepdims=True)
    hidden = tf.cast(14 * directions + 0.5 * random.normal(size=directions.shape), dtype)
    _, *gradients = found(hidden, kernel, targets, smoothing, "all")

    rounded = tf.cast(kernel, dtype)
    slope = np.array(tf.nn.softmax(tf.cast(hidden @ tf.transpose(rounded), tf.float64)))
    assert np.median(slope[np.arange(len(targets)), targets]) > 0.99
    slope -= smoothing / 1000
    slope[np.arange(len(targets)), targets] -= 1 - smoothing
    expected = slope @ tf.cast(rounded, tf.float64), slope.T @ tf.cast(hidden, tf.float64)
    for one, other in zip(gradients, expected, strict=True):
        assert np.linalg.norm(tf.cast(one, tf.float64) - other) < 0.02 * np.linalg.norm(other)


def test_gradients_are_multiplied_by_what_becomes_of_the_loss():
    data = example(20)
    once, thrice = found(*data, 0.1, "all"), found(*data, 0.1, "all", upstream=3.0)
    for one, other in zip(once[1:], thrice[1:], strict=True):
        np.testing.assert_allclose(3.0 * one, other, rtol=1e-6)


def test_factors_beyond_the_range_of_float16_keep_gradients_within_it():
    """As with a scale of the loss: 2^16 is infinite in float16, 2^16 times a hundredth is not."""
    random = np.random.default_rng(0)
    hidden, kernel = (0.02 * random.normal(size=(rows, D)).astype(np.float32) for rows in (5, V))
    given = tf.cast(hidden, tf.float16), kernel, np.array([2, 3, 4, 5, 0], np.int32), 0.1, "all"
    once, scaled = (found(*given, upstream=factor)[1] for factor in (1.0, 2.0**16))
    np.testing.assert_array_equal(tf.cast(scaled, tf.float32), 2.0**16 * tf.cast(once, tf.float32))


def test_padding_counts_nothing_and_moves_nothing():
    hidden, kernel, _ = example(5)
    loss, hidden_gradient, kernel_gradient = found(hidden, kernel, np.zeros(5, np.int32), 0.1, "all")
    assert float(loss) == 0.0
    np.testing.assert_array_equal(hidden_gradient, 0.0)
    np.testing.assert_array_equal(kernel_gradient, 0.0)


def test_large_logits_overflow_nothing():
    """A certain target has loss 0, an impossible one the difference of the logits."""
    kernel = np.zeros((V, D), np.float32)
    kernel[3, 0] = 1.0
    hidden = np.array([[1e4] + [0.0] * (D - 1)], np.float32)
    for target, expected in ((3, 0.0), (4, 1e4)):
        loss, *gradients = found(hidden, kernel, np.array([target], np.int32), 0.0, "all")
        np.testing.assert_allclose(loss, expected)
        assert all(np.isfinite(g).all() for g in gradients)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_stays_near_float32(dtype):
    hidden, kernel, targets = example(300)
    half = tf.cast(hidden, dtype)
    with tf.GradientTape() as tape:
        tape.watch(half)
        variable = tf.Variable(kernel)
        loss = linear_cross_entropy(half, variable, targets, 0.1)
    gradients = tape.gradient(loss, [half, variable])
    exact = written_out(np.asarray(tf.cast(half, tf.float32)), kernel, targets, 0.1, "all")
    assert (loss.dtype, gradients[0].dtype, gradients[1].dtype) == (tf.float32, dtype, tf.float32)
    np.testing.assert_allclose(loss, exact[0], rtol=1e-2)
    for one, other in zip(gradients, exact[1:], strict=True):
        one = np.asarray(tf.cast(one, tf.float32))
        assert np.linalg.norm(one - other) < 0.02 * np.linalg.norm(other)


def test_positions_of_a_batch_are_those_of_a_row():
    hidden, kernel, targets = example(12)
    row = linear_cross_entropy(hidden, kernel, targets, 0.1)
    batch = linear_cross_entropy(hidden.reshape(3, 4, D), kernel, targets.reshape(3, 4), 0.1)
    np.testing.assert_array_equal(row, batch)
    whole = keras.ops.sum(class_cross_entropy(hidden @ kernel.T, targets, 0.1) * token_weights(targets))
    np.testing.assert_allclose(row, whole, rtol=1e-5)


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_no_more_logits_than_a_block_of_the_device_are_ever_held(kind, monkeypatch):
    """No operation of the forward or backward pass outputs more than a block of logits."""
    monkeypatch.setattr(keras.distribution, "list_devices", lambda: [f"{kind}:0", f"{kind}:1"])
    positions = 8 * BLOCKS[kind]

    def gradient(hidden, kernel, targets):
        with tf.GradientTape() as tape:
            tape.watch([hidden, kernel])
            loss = linear_cross_entropy(hidden, kernel, targets, 0.1)
        return tape.gradient(loss, [hidden, kernel])

    signature = [tf.TensorSpec((positions, 4)), tf.TensorSpec((1000, 4)), tf.TensorSpec((positions,), tf.int32)]
    graph = tf.function(gradient, autograph=False).get_concrete_function(*signature).graph
    assert largest_within(graph) == BLOCKS[kind] * 1000
