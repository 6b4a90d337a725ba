"""Adapters of one layer, by hand."""

import keras
import numpy as np

from t2t.layers.adapters import Adapters
from tests.builders import numpy, tiny_transformer


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


def test_axes_before_the_last_two_are_matrices_of_their_own():
    layer = keras.layers.EinsumDense("bed,edo->beo", (2, 1), name="experts")
    model = keras.Sequential([keras.Input((2, 2)), layer])
    layer.kernel.assign(np.zeros((2, 2, 1)))
    adapters = Adapters(model, [layer.kernel], rank=1, alpha=1.0)
    a, b = adapters.variables
    a.assign([[[1.0], [2.0]], [[3.0], [4.0]]])
    b.assign([[[10.0]], [[100.0]]])
    ((weight, found),) = adapters.adapted({v.path: v.value for v in (layer.kernel, a, b)})
    assert weight is layer.kernel
    np.testing.assert_allclose(numpy(found), [[[10.0], [20.0]], [[300.0], [400.0]]])


def test_they_start_at_zero_with_the_variance_of_the_inputs_and_freeze_the_model():
    model = tiny_transformer(hidden_size=64, filter_size=400)
    kernel = next(v for v in model.variables if v.path.endswith("/outer/kernel"))
    a, b = Adapters(model, [kernel], rank=50, alpha=1.0).variables
    assert not np.asarray(b).any()
    assert a.shape == (400, 50)
    np.testing.assert_allclose(np.std(np.asarray(a)), 400**-0.5, rtol=0.05)  # of 20,000 numbers, 10 deviations
    assert not model.trainable_variables
