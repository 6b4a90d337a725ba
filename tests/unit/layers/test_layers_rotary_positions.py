"""Rotary positions by hand: Su et al. 2021, section 3.2.2.

Legend: T positions, K channels of one head.
"""

import numpy as np
import pytest
import tensorflow as tf

from t2t.layers.rotary_positions import rotate
from tests.builders import numpy


def turned(vector, position):
    return numpy(rotate(np.array([[[vector]]], np.float32), np.array([position])))[0, 0, 0]


def test_by_hand():
    """Of four channels the first pair turns by the position, the second by a hundredth of it."""
    np.testing.assert_allclose(turned([1.0, 0.0, 0.0, 2.0], 0), [1.0, 0.0, 0.0, 2.0])
    expected = [np.cos(3), np.sin(3), -2 * np.sin(0.03), 2 * np.cos(0.03)]
    np.testing.assert_allclose(turned([1.0, 0.0, 0.0, 2.0], 3), expected, rtol=1e-6)


def test_a_product_depends_on_the_distance_alone():
    query, key = np.random.default_rng(0).normal(size=(2, 8))
    products = [turned(query, start) @ turned(key, start + 3) for start in (0, 5, 40)]
    np.testing.assert_allclose(products, products[0], rtol=1e-4)
    assert abs(turned(query, 0) @ turned(key, 4) - products[0]) > 1e-3


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_16_bit_channels_are_rotated_in_float32_and_rounded_once(dtype):
    x = tf.cast(np.random.default_rng(0).normal(size=(2, 3, 5, 8)), dtype)
    exact = rotate(tf.cast(x, "float32"), np.arange(5) + 300)
    np.testing.assert_array_equal(rotate(x, np.arange(5) + 300), tf.cast(exact, dtype))
