"""Scores of targets by blocks, against whole logits in float64.

Legend: N positions, D width, V vocabulary.
"""

import numpy as np
import pytest
import tensorflow as tf

from t2t.layers.target_scores import BLOCK, most_probable, score_by_blocks
from tests.builders import largest_within

V, D = 50, 8


@pytest.mark.parametrize("positions", [1, 7, BLOCK, BLOCK + 1, 2 * BLOCK + 3])
def test_scores_are_those_of_whole_logits(positions):
    rng = np.random.default_rng(0)
    hidden, kernel_DV = (rng.normal(size=shape).astype(np.float32) for shape in ((positions, D), (D, V)))
    logits = hidden.astype(np.float64) @ kernel_DV
    targets = np.where(rng.random(positions) < 0.5, logits.argmax(1), rng.integers(0, V, positions)).astype(np.int32)
    log_probs, correct = score_by_blocks(tf.constant(hidden), tf.constant(kernel_DV), tf.constant(targets))
    gold = logits[np.arange(positions), targets] - np.log(np.exp(logits).sum(axis=1))
    np.testing.assert_allclose(log_probs, gold, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(correct, targets == logits.argmax(axis=1))


def test_the_scores_have_the_shape_of_the_targets():
    rng = np.random.default_rng(0)
    hidden, kernel_DV = (rng.normal(size=shape).astype(np.float32) for shape in ((12, D), (D, V)))
    targets = np.arange(12, dtype=np.int32)
    flat = score_by_blocks(tf.constant(hidden), kernel_DV, targets)
    for one, other in zip(
        flat, score_by_blocks(hidden.reshape(3, 4, D), kernel_DV, targets.reshape(3, 4)), strict=True
    ):
        np.testing.assert_array_equal(tf.reshape(one, (3, 4)), other)


def test_no_more_logits_than_a_block_are_ever_held():
    signature = [tf.TensorSpec((8 * BLOCK, 4)), tf.TensorSpec((4, 1000)), tf.TensorSpec((8 * BLOCK,), tf.int32)]
    graph = tf.function(score_by_blocks, autograph=False).get_concrete_function(*signature).graph
    assert largest_within(graph) == BLOCK * 1000


@pytest.mark.parametrize("positions", [1, BLOCK + 1])
def test_the_most_probable_is_never_padding(positions):
    rng = np.random.default_rng(0)
    hidden, kernel_DV = (rng.normal(size=shape).astype(np.float32) for shape in ((positions, 2, D), (D, V)))
    kernel_DV[:, 3] = kernel_DV[:, 9]
    logits = hidden @ kernel_DV
    found = most_probable(tf.constant(hidden), lambda hidden_RD: tf.matmul(hidden_RD, kernel_DV))
    np.testing.assert_array_equal(found, 1 + logits[:, :, 1:].argmax(axis=-1))
    assert found.dtype == tf.int32
    assert positions == 1 or (logits.argmax(axis=-1) == 0).any()
