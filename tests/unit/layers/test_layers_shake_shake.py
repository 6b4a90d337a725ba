"""Shake-Shake blocks against loops over positions; the weights of their branches, forwards and backwards.

Legend: B batch, Y rows, X columns, C channels.
"""

import numpy as np
import tensorflow as tf

from t2t.layers.shake_shake import ShakeBlock, mix_branches
from tests.builders import numpy, randomise, weights_of
from tests.models import dropout_seed
from tests.reference import resnet as reference

IMAGES = np.random.default_rng(0).normal(size=(64, 5, 4, 4)).astype(np.float32)


def shake_block(name="block"):
    block = ShakeBlock(4, 1, name=name)
    block.build((None, None, None, 4))
    return randomise(block)


def test_a_sum_has_one_weight_forwards_and_another_backwards():
    """0.25 * 4 + 0.75 * 8 = 7; gradients 0.6 and 0.4."""
    first, second = tf.Variable(4.0), tf.Variable(8.0)
    with tf.GradientTape() as tape:
        found = mix_branches(first, second, 0.25, 0.6)
    assert float(found) == 7.0
    np.testing.assert_allclose(tape.gradient(found, [first, second]), [0.6, 0.4], rtol=1e-6)


def parts(block, x):
    """The two branches and the shortcut, by loops and with moments of the batch."""
    weights = weights_of(block)
    first, second = (reference.shake_block(x, weights, 1, trains=True, share=share) for share in (1.0, 0.0))
    return first - x, second - x


def shares(block, x, seed):
    """The weight of the first branch for each image, found from the sum by least squares."""
    first, second = parts(block, x)
    mixed = numpy(block(x, seed=dropout_seed(seed))) - x - second
    difference = first - second
    found = (mixed * difference).sum((1, 2, 3)) / (difference**2).sum((1, 2, 3))
    np.testing.assert_allclose(mixed, found[:, None, None, None] * difference, rtol=1e-2, atol=1e-2)
    return found


def test_in_training_each_image_has_its_own_uniform_weight_which_seed_and_place_decide():
    block, x = shake_block(), IMAGES
    found = shares(block, x, seed=1)
    assert 0.0 <= found.min() < 0.15 < 0.85 < found.max() <= 1.0
    assert abs(found.mean() - 0.5) < 0.2
    np.testing.assert_array_equal(shares(block, x, seed=1), found)
    assert np.abs(shares(block, x, seed=2) - found).max() > 0.3
    assert np.abs(shares(shake_block("other"), x, seed=1) - found).max() > 0.3


def test_the_gradient_has_weights_of_its_own():
    """The offset of a branch's last norm adds to every position: its gradient is the weight times their number."""
    block, x = shake_block(), IMAGES
    forwards = shares(block, x, seed=1)
    offsets = [branch.norms[1].beta.value for branch in block.branches]
    for image in range(3):
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(block(x, seed=dropout_seed(1))[image, ..., 0])
        first, second = (float(gradient[0]) / 20 for gradient in tape.gradient(total, offsets))
        np.testing.assert_allclose(first + second, 1.0, rtol=1e-5)
        assert 0.0 <= first <= 1.0
        assert abs(first - forwards[image]) > 1e-3
