"""Separable convolutions and their blocks against loops over positions.

Legend: B batch, Y rows, X columns, C channels in, D channels out.
"""

import numpy as np
import pytest

from t2t.layers.xception import DownBlock, MiddleBlock, SeparableUnit
from tests.builders import numpy, randomise
from tests.reference.transformer import layer_norm


def grid(rows, columns, channels, seed=0):
    return np.random.default_rng(seed).normal(size=(1, rows, columns, channels)).astype(np.float32)


def unit_by_hand(unit, x, keep=None, relu=True):
    """ReLU; each channel by its own kernel; a matrix over channels; layer norm."""
    depthwise, pointwise, gamma, beta = (numpy(v) for v in unit.variables)
    x = np.maximum(x, 0.0) if relu else x
    x = x if keep is None else x * keep
    height, width = depthwise.shape[:2]
    padded = np.pad(x, ((height // 2, height // 2), (width // 2, width // 2), (0, 0)))
    found = np.zeros((*x.shape[:2], pointwise.shape[-1]))
    for row in range(x.shape[0]):
        for column in range(x.shape[1]):
            seen = padded[row : row + height, column : column + width]
            found[row, column] = layer_norm((seen * depthwise[..., 0]).sum((0, 1)) @ pointwise[0, 0], gamma, beta, 1e-6)
    return found


def built(layer, shape):
    layer.build(shape)
    return randomise(layer)


@pytest.mark.parametrize(("kernel", "relu"), [((3, 3), True), ((5, 1), True), ((3, 3), False)])
def test_a_separable_unit_by_hand(kernel, relu):
    unit, x = built(SeparableUnit(4, kernel, first_relu=relu), (None, None, None, 3)), grid(6, 5, 3)
    np.testing.assert_allclose(numpy(unit(x))[0], unit_by_hand(unit, x[0], relu=relu), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("normed", [True, False])
def test_a_middle_block_is_the_sum_of_its_input_and_three_units_normed_or_not(normed):
    block = built(MiddleBlock(3, (3, 3), 0.0, normed=normed), (None, None, None, 3))
    x = y = grid(4, 5, 3)[0]
    for unit in block.units:
        y = unit_by_hand(unit, y)
    norm = [numpy(v) for v in block.norm.variables] if normed else []
    expected = np.apply_along_axis(layer_norm, -1, x + y, *norm, 1e-6) if normed else x + y
    np.testing.assert_allclose(numpy(block(x[None]))[0], expected, rtol=1e-3, atol=1e-4)


def test_a_down_block_by_hand():
    """The largest of three by three around every second row and column, next to every second pixel projected."""
    block = built(DownBlock((4, 5)), (None, None, None, 3))
    x = grid(5, 4, 3)[0]
    y = unit_by_hand(block.units[1], unit_by_hand(block.units[0], x))
    norm = [numpy(v) for v in block.norm.variables]
    kernel = numpy(block.shortcut.kernel)[0, 0]
    found = numpy(block(x[None]))[0]
    assert found.shape == (3, 2, 5)
    for row in range(3):
        for column in range(2):
            r, c = 2 * row, 2 * column
            pooled = y[max(r - 1, 0) : r + 2, max(c - 1, 0) : c + 2].max((0, 1))
            expected = pooled + layer_norm(x[r, c] @ kernel, *norm, 1e-6)
            np.testing.assert_allclose(found[row, column], expected, rtol=1e-3, atol=1e-4)


def test_what_is_padding_is_seen_by_no_convolution_and_wins_no_pooling():
    block = built(DownBlock((4, 4), (3, 1)), (None, None, None, 3))
    x = grid(9, 1, 3)
    keep = (np.arange(9) < 6)[None, :, None, None]
    alone = numpy(block(x[:, :6], keep[:, :6]))
    changed = np.where(keep, x, 100.0).astype(np.float32)
    np.testing.assert_allclose(numpy(block(changed, keep))[:, :3], alone, rtol=1e-4, atol=1e-5)
