"""Convolutions of residual networks against loops over positions; whole networks are compared as models."""

import numpy as np
import pytest

from t2t.layers.resnet import PaddedConvolution
from tests.builders import numpy
from tests.reference import resnet as reference


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [1, 3, 7])
def test_a_convolution_has_the_same_zeros_on_all_sides(kernel, stride):
    """Also with even sizes, for which TensorFlow's `same` would start at another pixel."""
    layer = PaddedConvolution(4, kernel, stride)
    layer.build((None, None, None, 3))
    x = np.random.default_rng(0).normal(size=(3, 6, 5, 3)).astype(np.float32)
    expected = reference.convolve(x, numpy(layer.kernel), stride)
    np.testing.assert_allclose(numpy(layer(x)), expected, rtol=1e-4, atol=1e-5)
