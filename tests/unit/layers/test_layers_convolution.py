"""Convolutions and networks of them by hand and against loops in numpy: windows, padding, groups, steps.

Legend: B batch, T length, Y rows, X columns, C channels in, D channels out, W positions of a window.
"""

import numpy as np
import pytest

from t2t.layers.cache import StepCache, empty_cache
from t2t.layers.convolution import Convolution, DepthwiseConvolution
from t2t.layers.image_blocks import DownBlock, MiddleBlock, PaddedConvolution, SeparableUnit
from tests.builders import numpy, randomise
from tests.reference import resnet as reference
from tests.reference.convolution import convolve, convolve_depthwise, with_lengths
from tests.reference.transformer import layer_norm


def built_of(layer, channels, seed=1):
    layer.build((None, None, channels))
    return randomise(layer, seed)


def one_channel(causal, dilation=1):
    """A layer that computes 1 x_first + 10 x_middle + 100 x_last + 0.5 for each window."""
    layer = Convolution(1, 3, dilation=dilation, causal=causal)
    layer.build((None, None, 1))
    layer.kernel.assign(np.array([1.0, 10.0, 100.0]).reshape(3, 1, 1))
    layer.bias.assign([0.5])
    return layer


X = np.array([1.0, 2.0, 3.0, 4.0], np.float32).reshape(1, 4, 1)


def test_positions_that_are_not_kept_are_zeros():
    keep = np.array([[True, True, False, False]])
    np.testing.assert_allclose(numpy(one_channel(causal=False)(X, keep)).ravel(), [210.5, 21.5, 2.5, 0.5])


LAYERS = {
    "dense": lambda **window: Convolution(6, 3, **window),
    "even": lambda **window: Convolution(6, 4, **window),
    "grouped": lambda **window: Convolution(6, 5, groups=2, use_bias=False, **window),
    "normalised": lambda **window: Convolution(6, 3, deviation=0.3, weight_norm=True, **window),
    "a product": lambda **window: Convolution(6, 1, **window),
    "depthwise": lambda **window: DepthwiseConvolution(7, **window),
}


@pytest.fixture(params=LAYERS)
def kind(request):
    return LAYERS[request.param]


def expected_of(layer, xs):
    if isinstance(layer, DepthwiseConvolution):
        return convolve_depthwise(xs, numpy(layer.kernel), layer.dilation, layer.causal)
    kernel = numpy(layer.kernel)
    kernel = with_lengths(kernel, numpy(layer.length)) if layer.weight_norm else kernel
    bias = numpy(layer.bias) if layer.use_bias else None
    return convolve(xs, kernel, bias, layer.dilation, layer.causal, layer.groups)


@pytest.mark.parametrize("dilation", [1, 3])
@pytest.mark.parametrize("causal", [False, True])
def test_is_what_it_is_in_numpy(kind, causal, dilation):
    layer = built_of(kind(causal=causal, dilation=dilation), 4)
    x_BTC = np.random.default_rng(2).normal(size=(2, 9, 4)).astype(np.float32)
    for found, xs in zip(numpy(layer(x_BTC)), x_BTC.astype(np.float64), strict=True):
        np.testing.assert_allclose(found, expected_of(layer, list(xs)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dilation", [1, 3])
def test_steps_are_the_whole_sequence(kind, dilation):
    layer = built_of(kind(causal=True, dilation=dilation), 4)
    x_BTC = np.random.default_rng(2).normal(size=(2, 9, 4)).astype(np.float32)
    cache, found = empty_cache([layer], 2, None, beams=1), []
    shapes = {layer.path: (2, layer.reach, 4)} if layer.reach else {}
    for t in range(9):
        step = StepCache(cache, t, {})
        found.append(numpy(layer(x_BTC[:, t], cache=step)))
        cache = step.result()
        assert {path: tuple(window.shape) for path, window in cache.states.items()} == shapes
    np.testing.assert_allclose(np.stack(found, axis=1), numpy(layer(x_BTC)), rtol=1e-4, atol=1e-5)


def test_lengths_are_those_of_the_weights_whatever_these_are():
    layer = built_of(Convolution(3, 3, deviation=0.1, weight_norm=True, use_bias=False), 2)
    x = np.random.default_rng(0).normal(size=(1, 5, 2)).astype(np.float32)
    before = numpy(layer(x))
    layer.kernel.assign(layer.kernel * np.array([2.0, 0.5, 7.0], np.float32))
    np.testing.assert_allclose(numpy(layer(x)), before, rtol=1e-5)
    layer.length.assign(layer.length * 2.0)
    np.testing.assert_allclose(numpy(layer(x)), 2.0 * before, rtol=1e-5)


def test_depthwise_weights_begin_so_that_the_variance_stays():
    layer = DepthwiseConvolution(31)
    layer.build((None, None, 2000))
    kernel = numpy(layer.kernel)
    assert abs(kernel.std() - 31**-0.5) < 2e-3
    assert abs(kernel).max() < (3 / 31) ** 0.5


# === Residual networks ===
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [1, 3, 7])
def test_a_convolution_has_the_same_zeros_on_all_sides(kernel, stride):
    """Also with even sizes, for which TensorFlow's `same` would start at another pixel."""
    layer = PaddedConvolution(4, kernel, stride)
    layer.build((None, None, None, 3))
    x = np.random.default_rng(0).normal(size=(3, 6, 5, 3)).astype(np.float32)
    expected = reference.convolve(x, numpy(layer.kernel), stride)
    np.testing.assert_allclose(numpy(layer(x)), expected, rtol=1e-4, atol=1e-5)


# === Separable convolutions ===
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


def built_grid(layer, shape):
    layer.build(shape)
    return randomise(layer)


@pytest.mark.parametrize(("kernel", "relu"), [((3, 3), True), ((5, 1), True), ((3, 3), False)])
def test_a_separable_unit_by_hand(kernel, relu):
    unit, x = built_grid(SeparableUnit(4, kernel, first_relu=relu), (None, None, None, 3)), grid(6, 5, 3)
    np.testing.assert_allclose(numpy(unit(x))[0], unit_by_hand(unit, x[0], relu=relu), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("normed", [True, False])
def test_a_middle_block_is_the_sum_of_its_input_and_three_units_normed_or_not(normed):
    block = built_grid(MiddleBlock(3, (3, 3), 0.0, normed=normed), (None, None, None, 3))
    x = y = grid(4, 5, 3)[0]
    for unit in block.units:
        y = unit_by_hand(unit, y)
    norm = [numpy(v) for v in block.norm.variables] if normed else []
    expected = np.apply_along_axis(layer_norm, -1, x + y, *norm, 1e-6) if normed else x + y
    np.testing.assert_allclose(numpy(block(x[None]))[0], expected, rtol=1e-3, atol=1e-4)


def test_a_down_block_by_hand():
    """The largest of three by three around every second row and column, next to every second pixel projected."""
    block = built_grid(DownBlock((4, 5)), (None, None, None, 3))
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
    block = built_grid(DownBlock((4, 4), (3, 1)), (None, None, None, 3))
    x = grid(9, 1, 3)
    keep = (np.arange(9) < 6)[None, :, None, None]
    alone = numpy(block(x[:, :6], keep[:, :6]))
    changed = np.where(keep, x, 100.0).astype(np.float32)
    np.testing.assert_allclose(numpy(block(changed, keep))[:, :3], alone, rtol=1e-4, atol=1e-5)
