"""Losses and scores of targets: by hand, from logits, and by blocks of the output layer, against float64 formulas.

Legend: N positions, D width, V vocabulary.
"""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t.layers.losses import BLOCK as SCORES_BLOCK
from t2t.layers.losses import (
    BLOCKS,
    block_size,
    class_cross_entropy,
    linear_cross_entropy,
    most_probable,
    score_by_blocks,
    token_weights,
)
from tests.builders import largest_within, numpy
from tests.reference.transformer import smoothed_loss

V, D, BLOCK = 50, 8, BLOCKS["cpu"]


# === From logits ===
@pytest.mark.parametrize("kind", ["all", "others"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9, 0.99])
def test_against_the_distribution_written_out(smoothing, kind):
    rng = np.random.default_rng(0)
    logits, targets = rng.normal(0.0, 3.0, (20, 11)), rng.integers(1, 11, 20)
    found = class_cross_entropy(logits.astype(np.float32), targets, smoothing, kind)
    expected = [smoothed_loss([row], [target], smoothing, kind) for row, target in zip(logits, targets, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    # A single class is certain, and knowing nothing costs the logarithm of the vocabulary.
    np.testing.assert_allclose(
        class_cross_entropy(np.full((2, 1), 3.0, np.float32), [0, 0], smoothing, kind), 0.0, atol=1e-6
    )
    loss = class_cross_entropy(np.zeros((2, 3, 50), np.float32), np.full((2, 3), 7), smoothing, kind)
    np.testing.assert_allclose(loss, np.full((2, 3), math.log(50)), rtol=1e-5)


def test_padding_weighs_nothing():
    np.testing.assert_array_equal(token_weights(np.array([[4, 1, 0]])), [[1.0, 1.0, 0.0]])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_losses_are_float32_whatever_the_logits(dtype):
    """A sum of 30,000 equal terms would stall at 2,048 in float16 and at 256 in bfloat16. Large logits overflow not."""
    loss = class_cross_entropy(tf.zeros((1, 30_000), dtype), np.array([5]), 0.1)
    assert loss.dtype == tf.float32
    np.testing.assert_allclose(loss, [math.log(30_000)], rtol=1e-5)
    large = np.array([[1000.0, 0.0, -1000.0]], np.float32)
    np.testing.assert_allclose(class_cross_entropy(large, np.array([1]), 0.0), [1000.0])


# === By blocks of the output layer ===
def example(positions):
    random = np.random.default_rng(0)
    hidden = random.normal(size=(positions, D)).astype(np.float32) * 2
    kernel = random.normal(size=(V, D)).astype(np.float32)
    return hidden, kernel, random.integers(0, V, size=positions).astype(np.int32)  # 0 is padding


def written_out(hidden, kernel, targets, smoothing=0.1, kind="all", weights=None):
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


def found(hidden, kernel, targets, smoothing=0.1, kind="all", weights=None, upstream=1.0):
    """Returns the loss and its gradients, multiplied by what becomes of the loss."""
    hidden, kernel = tf.Variable(hidden), tf.Variable(kernel)
    with tf.GradientTape() as tape:
        loss = linear_cross_entropy(hidden, kernel, targets, smoothing, kind, weights)
        scaled = upstream * loss
    return loss, *tape.gradient(scaled, [hidden, kernel])


@pytest.mark.parametrize("kind", ["all", "others"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("positions", [1, 7, BLOCK, BLOCK + 1, 2 * BLOCK + 3])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_loss_and_gradients_are_those_written_out(positions, smoothing, kind, is_weighted):
    """Weights of positions may have any sign."""
    weights = np.random.default_rng(1).normal(size=positions).astype(np.float32) if is_weighted else None
    given = (*example(positions), smoothing, kind, weights)
    for one, other in zip(found(*given), written_out(*given), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize("most", [1, 4, 23, 100])
def test_any_size_of_blocks_gives_the_same(most, monkeypatch):
    data = example(23)
    monkeypatch.setitem(BLOCKS, "cpu", most)
    for one, other in zip(found(*data), written_out(*data), strict=True):
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
    _, *gradients = found(hidden, kernel, targets, smoothing)

    rounded = tf.cast(kernel, dtype)
    slope = np.array(tf.nn.softmax(tf.cast(hidden @ tf.transpose(rounded), tf.float64)))
    assert np.median(slope[np.arange(len(targets)), targets]) > 0.99
    slope -= smoothing / 1000
    slope[np.arange(len(targets)), targets] -= 1 - smoothing
    expected = slope @ tf.cast(rounded, tf.float64), slope.T @ tf.cast(hidden, tf.float64)
    for one, other in zip(gradients, expected, strict=True):
        assert np.linalg.norm(tf.cast(one, tf.float64) - other) < 0.02 * np.linalg.norm(other)


def test_gradients_are_multiplied_by_what_becomes_of_the_loss():
    """Also beyond the range of float16, as with a scale of the loss: 2^16 is infinite, a hundredth of it is not."""
    data = example(20)
    for one, other in zip(found(*data)[1:], found(*data, upstream=3.0)[1:], strict=True):
        np.testing.assert_allclose(3.0 * one, other, rtol=1e-6)
    random = np.random.default_rng(0)
    hidden, kernel = (0.02 * random.normal(size=(rows, D)).astype(np.float32) for rows in (5, V))
    given = tf.cast(hidden, tf.float16), kernel, np.array([2, 3, 4, 5, 0], np.int32)
    once, scaled = (found(*given, upstream=factor)[1] for factor in (1.0, 2.0**16))
    np.testing.assert_array_equal(tf.cast(scaled, tf.float32), 2.0**16 * tf.cast(once, tf.float32))


def test_padding_counts_nothing_and_large_logits_overflow_nothing():
    """A certain target has loss 0, an impossible one the difference of the logits."""
    hidden, kernel, _ = example(5)
    for value in found(hidden, kernel, np.zeros(5, np.int32)):
        np.testing.assert_array_equal(value, 0.0)
    kernel = np.zeros((V, D), np.float32)
    kernel[3, 0] = 1.0
    hidden = np.array([[1e4] + [0.0] * (D - 1)], np.float32)
    for target, expected in ((3, 0.0), (4, 1e4)):
        loss, *gradients = found(hidden, kernel, np.array([target], np.int32), 0.0)
        np.testing.assert_allclose(loss, expected)
        assert all(np.isfinite(g).all() for g in gradients)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_stays_near_float32(dtype):
    hidden, kernel, targets = example(300)
    half = tf.cast(hidden, dtype)
    loss, *gradients = found(half, kernel, targets)
    exact = written_out(np.asarray(tf.cast(half, tf.float32)), kernel, targets)
    assert (loss.dtype, gradients[0].dtype, gradients[1].dtype) == (tf.float32, dtype, tf.float32)
    np.testing.assert_allclose(loss, exact[0], rtol=1e-2)
    for one, other in zip(gradients, exact[1:], strict=True):
        assert np.linalg.norm(numpy(one) - other) < 0.02 * np.linalg.norm(other)


def test_positions_of_a_batch_are_those_of_a_row():
    hidden, kernel, targets = example(12)
    row = linear_cross_entropy(hidden, kernel, targets, 0.1)
    batch = linear_cross_entropy(hidden.reshape(3, 4, D), kernel, targets.reshape(3, 4), 0.1)
    np.testing.assert_array_equal(row, batch)
    whole = keras.ops.sum(class_cross_entropy(hidden @ kernel.T, targets, 0.1) * token_weights(targets))
    np.testing.assert_allclose(row, whole, rtol=1e-5)


def test_no_more_logits_than_a_block_of_the_device_are_ever_held():
    """No operation of the forward or backward pass outputs more than a block of logits, nor does scoring."""
    assert [block_size([f"{kind}:0", f"{kind}:1"]) for kind in ("cpu", "gpu")] == [BLOCKS["cpu"], BLOCKS["gpu"]]

    def gradient(hidden, kernel, targets):
        with tf.GradientTape() as tape:
            tape.watch([hidden, kernel])
            loss = linear_cross_entropy(hidden, kernel, targets, 0.1)
        return tape.gradient(loss, [hidden, kernel])

    for function, block, shape in ((gradient, BLOCK, (1000, 4)), (score_by_blocks, SCORES_BLOCK, (4, 1000))):
        signature = [tf.TensorSpec((8 * block, 4)), tf.TensorSpec(shape), tf.TensorSpec((8 * block,), tf.int32)]
        graph = tf.function(function, autograph=False).get_concrete_function(*signature).graph
        assert largest_within(graph) == block * 1000


# === Scores ===
@pytest.mark.parametrize("shape", [(1,), (7,), (3, 4), (SCORES_BLOCK,), (SCORES_BLOCK + 1,), (2 * SCORES_BLOCK + 3,)])
def test_scores_are_those_of_whole_logits_in_the_shape_of_the_targets(shape):
    rng = np.random.default_rng(0)
    hidden, kernel_DV = (rng.normal(size=sizes).astype(np.float32) for sizes in ((*shape, D), (D, V)))
    logits = hidden.astype(np.float64) @ kernel_DV
    targets = np.where(rng.random(shape) < 0.5, logits.argmax(-1), rng.integers(0, V, shape)).astype(np.int32)
    log_probs, correct = score_by_blocks(tf.constant(hidden), tf.constant(kernel_DV), tf.constant(targets))
    gold = np.take_along_axis(logits, targets[..., None], -1)[..., 0] - np.log(np.exp(logits).sum(axis=-1))
    np.testing.assert_allclose(log_probs, gold, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(correct, targets == logits.argmax(axis=-1))


@pytest.mark.parametrize("positions", [1, SCORES_BLOCK + 1])
def test_the_most_probable_is_never_padding(positions):
    rng = np.random.default_rng(0)
    hidden, kernel_DV = (rng.normal(size=shape).astype(np.float32) for shape in ((positions, 2, D), (D, V)))
    kernel_DV[:, 3] = kernel_DV[:, 9]
    logits = hidden @ kernel_DV
    found = most_probable(tf.constant(hidden), lambda hidden_RD: tf.matmul(hidden_RD, kernel_DV))
    np.testing.assert_array_equal(found, 1 + logits[:, :, 1:].argmax(axis=-1))
    assert found.dtype == tf.int32
    assert positions == 1 or (logits.argmax(axis=-1) == 0).any()
