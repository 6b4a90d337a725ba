"""Convolutions by hand and against numpy: windows, padding, groups, steps.

Legend: B batch, T length, C channels, W positions of a window.
"""

import numpy as np
import pytest
import tensorflow as tf

from t2t.layers.cache import StepCache, empty_cache
from t2t.layers.convolution import Convolution, DepthwiseConvolution
from t2t.layers.gated_convolution import GatedConvolution, linear, with_scaled_gradient
from tests.builders import numpy, randomise
from tests.reference.convolution import convolve, convolve_depthwise, with_lengths


def built(layer, channels, seed=1):
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


def test_windows_by_hand():
    np.testing.assert_allclose(numpy(one_channel(causal=False)(X)).ravel(), [210.5, 321.5, 432.5, 43.5])
    np.testing.assert_allclose(numpy(one_channel(causal=True)(X)).ravel(), [100.5, 210.5, 321.5, 432.5])
    np.testing.assert_allclose(numpy(one_channel(causal=True, dilation=2)(X)).ravel(), [100.5, 200.5, 310.5, 420.5])
    np.testing.assert_allclose(numpy(one_channel(causal=False, dilation=2)(X)).ravel(), [310.5, 420.5, 31.5, 42.5])


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
    layer = built(kind(causal=causal, dilation=dilation), 4)
    x_BTC = np.random.default_rng(2).normal(size=(2, 9, 4)).astype(np.float32)
    for found, xs in zip(numpy(layer(x_BTC)), x_BTC.astype(np.float64), strict=True):
        np.testing.assert_allclose(found, expected_of(layer, list(xs)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dilation", [1, 3])
def test_steps_are_the_whole_sequence(kind, dilation):
    layer = built(kind(causal=True, dilation=dilation), 4)
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
    layer = built(Convolution(3, 3, deviation=0.1, weight_norm=True, use_bias=False), 2)
    x = np.random.default_rng(0).normal(size=(1, 5, 2)).astype(np.float32)
    before = numpy(layer(x))
    layer.kernel.assign(layer.kernel * np.array([2.0, 0.5, 7.0], np.float32))
    np.testing.assert_allclose(numpy(layer(x)), before, rtol=1e-5)
    layer.length.assign(layer.length * 2.0)
    np.testing.assert_allclose(numpy(layer(x)), 2.0 * before, rtol=1e-5)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_maps_and_gates_keep_the_variance_of_what_they_are_given(dropout):
    """Of unit variance after dropout has multiplied it by 1 / p; a gate near 1/2 leaves a quarter of 4."""
    x = np.random.default_rng(0).normal(size=(4, 50, 256)) / (1.0 - dropout) ** 0.5
    plain = linear(512, 256, dropout)
    plain.build((None, None, 256))
    assert abs(numpy(plain(x.astype(np.float32))).std() - 1.0) < 0.02
    layer = GatedConvolution(512, 256, 3, causal=True, dropout=dropout)
    layer.build((None, None, 256))
    np.testing.assert_allclose(numpy(layer.convolution.length), (4 * (1 - dropout)) ** 0.5, rtol=1e-6)
    assert abs(numpy(layer.convolution.kernel).std() - (4 * (1 - dropout) / 768) ** 0.5) < 2e-3
    small = numpy(layer(1e-3 * x.astype(np.float32)))[:, 2:]  # gates of small sums are 1/2
    assert abs(small.std() / 1e-3 - 1.0) < 0.02


def test_depthwise_weights_begin_so_that_the_variance_stays():
    layer = DepthwiseConvolution(31)
    layer.build((None, None, 2000))
    kernel = numpy(layer.kernel)
    assert abs(kernel.std() - 31**-0.5) < 2e-3
    assert abs(kernel).max() < (3 / 31) ** 0.5


def test_a_scaled_gradient_is_that_of_the_same_value():
    x = tf.constant([1.0, -2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = with_scaled_gradient(x, 0.25)
        loss = tf.reduce_sum(y * y)
    np.testing.assert_array_equal(y, x)
    np.testing.assert_allclose(tape.gradient(loss, x), [0.5, -1.0])
