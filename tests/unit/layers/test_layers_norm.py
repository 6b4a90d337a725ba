"""Norms and adapters of one layer, by hand and against Keras.

Legend: B batch, C channels, D width.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t.layers.adapters import Adapters
from t2t.layers.norm import BatchNorm, LayerNorm, RmsNorm
from tests.builders import numpy, tiny_transformer
from tests.models import dropout_seed

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


# === Batch norms: moments of the batch, moving moments ===

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


# === Adapters ===
def test_a_layer_by_hand():
    inputs = keras.Input((2,))
    layer = keras.layers.Dense(3, name="layer")
    model = keras.Model(inputs, layer(inputs))
    layer.set_weights([np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.array([0.5, 0.0, -0.5])])
    adapters = Adapters(model, [layer.kernel], rank=1, alpha=2.0)
    a, b = adapters.variables
    assert [a.path, b.path] == [f"{layer.kernel.path}/lora_a", f"{layer.kernel.path}/lora_b"]
    a.assign([[1.0], [-1.0]])
    b.assign([[10.0, 20.0, 30.0]])
    values = {v.path: v.value for v in (layer.kernel, a, b)}
    with keras.StatelessScope(state_mapping=adapters.adapted(values)):
        found = layer(np.array([[1.0, 2.0]]))
    # x W + bias = (9.5, 12, 14.5); x A = -1; s (x A) B = 2 * -1 * (10, 20, 30)
    np.testing.assert_allclose(numpy(found), [[-10.5, -28.0, -45.5]])
    np.testing.assert_allclose(numpy(layer(np.array([[1.0, 2.0]]))), [[9.5, 12.0, 14.5]])


def test_they_start_at_zero_with_the_variance_of_the_inputs_and_freeze_the_model():
    model = tiny_transformer(hidden_size=64, filter_size=400)
    kernel = next(v for v in model.variables if v.path.endswith("/outer/kernel"))
    a, b = Adapters(model, [kernel], rank=50, alpha=1.0).variables
    assert not np.asarray(b).any()
    assert a.shape == (400, 50)
    np.testing.assert_allclose(np.std(np.asarray(a)), 400**-0.5, rtol=0.05)  # of 20,000 numbers, 10 deviations
    assert not model.trainable_variables
