"""Residual blocks against loops over positions, with moments of the batch and moving ones.

Legend: B batch, Y rows, X columns, C channels.
"""

import numpy as np
import pytest

from t2t.layers.resnet import PaddedConvolution, ResidualBlock
from tests.builders import numpy, randomise, weights_of
from tests.models import dropout_seed
from tests.reference import resnet as reference


def images(rows, columns, channels, seed=0):
    return np.random.default_rng(seed).normal(size=(3, rows, columns, channels)).astype(np.float32)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [1, 3, 7])
def test_a_convolution_has_the_same_zeros_on_all_sides(kernel, stride):
    """Also with even sizes, for which TensorFlow's `same` would start at another pixel."""
    layer = PaddedConvolution(4, kernel, stride)
    layer.build((None, None, None, 3))
    x = images(6, 5, 3)
    expected = reference.convolve(x, numpy(layer.kernel), stride)
    np.testing.assert_allclose(numpy(layer(x)), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("trains", [False, True], ids=["moving moments", "moments of the batch"])
@pytest.mark.parametrize("preactivation", [False, True], ids=["2015", "2016"])
@pytest.mark.parametrize("outputs", [4, 6], ids=["two convolutions", "bottleneck"])
@pytest.mark.parametrize(("inputs", "stride"), [(4, 1), (6, 1), (3, 2)])
def test_a_block_is_the_papers(inputs, outputs, stride, preactivation, trains):
    block = ResidualBlock(inputs, 4, outputs, stride, preactivation, name="block")
    block.build((None, None, None, inputs))
    assert (block.shortcut is None) == (inputs == outputs and stride == 1)
    by_hand = reference.Block(weights_of(randomise(block)), stride, trains)
    x = images(5, 6, inputs)
    expected = by_hand.preactivated(x) if preactivation else by_hand.postactivated(x)
    found = numpy(block(x, seed=dropout_seed(1) if trains else None))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
