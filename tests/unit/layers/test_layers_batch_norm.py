"""Batch norms by hand: moments of the batch, moving moments, and which of them are used.

Legend: B batch, C channels.
"""

import keras
import numpy as np
import pytest

from t2t.layers.batch_norm import BatchNorm
from tests.builders import numpy
from tests.models import dropout_seed

X = np.array([[1.0, 4.0], [3.0, -4.0]], np.float32)
"""Two examples of two channels: means 2 and 0, variances 1 and 16."""


@pytest.fixture
def norm():
    layer = BatchNorm(name="norm")
    layer.build((None, 2))
    layer.gamma.assign([2.0, 0.5])
    layer.beta.assign([1.0, 0.0])
    layer.moving_mean.assign([1.0, -2.0])
    layer.moving_variance.assign([4.0, 1.0])
    return layer


def test_without_a_seed_it_uses_the_moving_moments_and_keeps_them(norm):
    """2 (x - 1) / 2 + 1 and 0.5 (x + 2) / 1."""
    np.testing.assert_allclose(numpy(norm(X)), [[1.0, 3.0], [3.0, -1.0]], rtol=1e-4)
    np.testing.assert_array_equal(numpy(norm.moving_mean), [1.0, -2.0])
    np.testing.assert_array_equal(numpy(norm.moving_variance), [4.0, 1.0])


def test_with_a_seed_it_uses_the_moments_of_the_batch_and_moves_by_a_tenth(norm):
    """2 (x - 2) / 1 + 1 and 0.5 x / 4; moments 0.9 * 1 + 0.1 * 2, 0.9 * -2, 0.9 * 4 + 0.1 * 1, 0.9 * 1 + 0.1 * 16."""
    np.testing.assert_allclose(numpy(norm(X, seed=dropout_seed(1))), [[-1.0, 0.5], [3.0, -0.5]], rtol=1e-4)
    np.testing.assert_allclose(numpy(norm.moving_mean), [1.1, -1.8], rtol=1e-6)
    np.testing.assert_allclose(numpy(norm.moving_variance), [3.7, 2.5], rtol=1e-6)


def test_a_frozen_norm_uses_the_moving_moments_in_training_too(norm):
    norm.gamma.trainable = False
    np.testing.assert_array_equal(numpy(norm(X, seed=dropout_seed(1))), numpy(norm(X)))
    np.testing.assert_array_equal(numpy(norm.moving_mean), [1.0, -2.0])


def test_moments_of_16_bit_activations_are_float32():
    """Their mean, 257, cannot be represented in bfloat16."""
    layer = BatchNorm(dtype="mixed_bfloat16")
    layer.build((None, 1))
    found = layer(keras.ops.cast([[256.0], [258.0]], "bfloat16"), seed=dropout_seed(1))
    assert found.dtype == "bfloat16"
    np.testing.assert_allclose(numpy(found), [[-1.0], [1.0]], rtol=0.01)
    np.testing.assert_allclose(numpy(layer.moving_mean), [25.7], rtol=1e-6)
