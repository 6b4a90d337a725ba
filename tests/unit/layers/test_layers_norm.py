"""Both normalisations against Keras's layers, their gradients too, and by hand.

Legend: D width.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t.layers.norm import LayerNorm, RmsNorm

KINDS = {"layer": (LayerNorm, keras.layers.LayerNormalization), "rms": (RmsNorm, keras.layers.RMSNormalization)}


def pair(width, epsilon=1e-6, dtype="float32", seed=0, kind="layer"):
    """Our layer and Keras's, with the same weights, neither ones nor zeros."""
    random = np.random.default_rng(seed)
    ours, theirs = KINDS[kind]
    layers = ours(epsilon, dtype=dtype), theirs(epsilon=epsilon, dtype=dtype)
    for layer in layers:
        layer.build((None, width))
    weights = [random.normal(size=width) for _ in layers[1].weights]
    for layer in layers:
        layer.set_weights(weights)
    return layers


def outcome(layer, x, wanted):
    """Returns the output and the gradients of sum(output * wanted) with respect to input and weights."""
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x)
        loss = tf.reduce_sum(tf.cast(y, "float32") * wanted)
    return y, *tape.gradient(loss, [x, *(weight.value for weight in layer.weights)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(7, 5), (2, 3, 16), (2, 1, 1, 4)])
def test_output_and_gradients_are_those_of_keras(shape, kind):
    random = np.random.default_rng(1)
    x, wanted = (random.normal(loc=3.0, size=shape).astype(np.float32) for _ in range(2))
    ours, theirs = (outcome(layer, x, wanted) for layer in pair(shape[-1], epsilon=0.1, kind=kind))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_by_hand():
    """(1, 3) has mean 2 and deviation 1; an epsilon of 3 makes it 2. (1, 7) has the mean square 25; 11 more make 36."""
    for layer, x, gamma, expected in (
        (LayerNorm(3.0), [1.0, 3.0], [1.0, 1.0], [-0.5, 0.5]), (RmsNorm(11.0), [1.0, 7.0], [3.0, 6.0], [0.5, 7.0]),
    ):  # fmt: skip
        layer.build((None, 2))
        layer.gamma.assign(gamma)
        np.testing.assert_allclose(layer(np.array([x], np.float32)), [expected])


def test_in_a_graph_with_unknown_sizes():
    layer, _ = pair(6)
    x = np.random.default_rng(2).normal(size=(2, 3, 6)).astype(np.float32)
    traced = tf.function(layer, input_signature=[tf.TensorSpec((None, None, 6))], autograph=False)
    np.testing.assert_allclose(traced(x), layer(x), rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_is_computed_in_float32(dtype, kind):
    """Of mean 1,000 and deviation 3, accurate; squares of 300 do not overflow, nor do means of 3,000 numbers stall."""
    layer, _ = pair(3000, dtype=dtype, kind=kind)
    rows = np.tile([[1000.0, 1004, 996, 1000], [300, -300, 300, -300]], 750)
    x = tf.cast(rows, layer.compute_dtype)
    assert layer(x).dtype == layer.compute_dtype
    exact = pair(3000, kind=kind)[0](tf.cast(x, "float32"))
    np.testing.assert_allclose(tf.cast(layer(x), "float32"), exact, rtol=0.01, atol=0.02)
    gradients = outcome(layer, x, tf.ones((2, 3000)))
    assert [g.dtype for g in gradients[1:]] == [layer.compute_dtype, *["float32"] * len(layer.weights)]


def test_the_weights_of_layer_normalisation_are_named_as_in_keras():
    ours, theirs = pair(4)
    assert [w.name for w in ours.weights] == [w.name for w in theirs.weights]
