"""Neural GPUs against independent ones in numpy (tests/reference/neural_gpu.py), and by hand.

Legend: B batch, P positions, T target length, R rows of the state, D width.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t.layers.conv_gru import DiagonalConvGru, hard_sigmoid, hard_tanh, saturating_sigmoid, saturation, shifted
from t2t.layers.costs import Costed
from t2t.registry import MODELS
from tests.builders import batch, numpy, tokens_spec
from tests.models import check_logits, directional_derivatives, loss_of_reference
from tests.unit.models.references import reference_of, tiny

SHAPES = [
    {}, {"num_hidden_layers": 2, "state_rows": 3}, {"steps_per_position": 2, "kernel_size": 5}, {"state_rows": 2},
]  # fmt: skip


@pytest.fixture(scope="module", params=["neural_gpu", "diagonal_neural_gpu"])
def name(request):
    return request.param


@pytest.mark.parametrize("changes", SHAPES, ids=str)
def test_logits_and_cost_are_those_of_an_independent_model_whatever_the_padding(name, changes):
    model = tiny(name, **changes)
    reference = reference_of(model)
    check_logits(model, reference, (5, 1, 7), (4, 2, 6), 9)
    features = batch(sources=(5, 1, 7), targets=(4, 2, 6), widths=(9, 8))
    saturated = sum(reference.run(ids[ids != 0].tolist())[1] for ids in features["inputs"])
    hidden = model.body(features)
    assert isinstance(hidden, Costed) == (name == "diagonal_neural_gpu") == (saturated > 0.1)
    if isinstance(hidden, Costed):
        np.testing.assert_allclose(float(hidden.cost), model.hparams.saturation_cost * saturated, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "changes"),
    [("neural_gpu", {"num_hidden_layers": 2}), ("diagonal_neural_gpu", {"saturation_cost": 0.5})],
    indirect=["name"],
)
def test_gradients_are_those_of_finite_differences_of_the_independent_model(name, changes):
    model = tiny(name, label_smoothing=0.0, **changes)
    features = batch(sources=(3, 1, 2), targets=(3, 2, 2), widths=(4, 4))
    cross_entropy = loss_of_reference(lambda weights: reference_of(model, weights), features)

    def loss(weights):
        of_source = reference_of(model, weights).run
        costs = sum(of_source(ids[ids != 0].tolist())[1] for ids in features["inputs"])
        return cross_entropy(weights) + changes.get("saturation_cost", 0.0) * costs

    for path, found, expected in directional_derivatives(model, features, loss):
        np.testing.assert_allclose(found, expected, rtol=5e-3, atol=2e-3, err_msg=path)


def test_nonlinearities_by_hand():
    """1.2 / (1 + e^-1) - 0.1 = 0.77727; 1.2 / (1 + e^3) - 0.1 = -0.04309, below 0."""
    x = np.array([-120.0, -3.0, 0.0, 1.0, 120.0], np.float32)
    np.testing.assert_allclose(saturating_sigmoid(x), [0.0, 0.0, 0.5, 0.777270, 1.0], rtol=1e-5)
    x = np.array([-2.0, -1.0, -0.5, 0.0, 0.8, 1.0, 1.5], np.float32)
    np.testing.assert_allclose(hard_sigmoid(x), [0.0, 0.0, 0.25, 0.5, 0.9, 1.0, 1.0], rtol=1e-6)
    np.testing.assert_allclose(hard_tanh(x), [-1.0, -1.0, -0.5, 0.0, 0.8, 1.0, 1.0], rtol=1e-6)
    np.testing.assert_allclose(saturation(x), (1.1 + 0.1 + 0.1 + 0.6) / 7, rtol=1e-5)


def test_a_shift_by_hand():
    """Five channels: three stay, one goes ahead, one back."""
    x = np.arange(15, dtype=np.float32).reshape(1, 3, 1, 5)
    assert numpy(shifted(x))[0, :, 0].tolist() == [[0, 1, 2, 0, 9], [5, 6, 7, 3, 14], [10, 11, 12, 8, 0]]


def test_an_open_gate_carries_a_channel_along_and_off_the_end():
    """With update gates at 1, n steps take what moves ahead off the end, and leave what stays."""
    model = tiny("diagonal_neural_gpu", hidden_size=3)
    for variable in model.variables:
        if "unit_0" in variable.path:
            variable.assign(np.zeros(variable.shape))
    model.units[0].gates_bias.assign([0.0, 0.0, 0.0, 5.0, 5.0, 5.0])
    x = np.array([[[0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [0.7, 0.8, 0.9]]], np.float32)
    state = keras.ops.convert_to_tensor(x[:, :, None])
    step = model.units[0].stepper()
    for _ in range(2):
        state, _ = step(state, None)
    np.testing.assert_allclose(state[0, :, 0], [[0.1, 0, 0.9], [0.4, 0, 0], [0.7, 0.2, 0]], atol=1e-6)


def test_saturation_by_hand():
    """Gates of 5 are 4.1 too far each, the candidate of 0 is not: (2 * (4.1 + 4.1) / 2 + 0) / 3."""
    unit = DiagonalConvGru(2, 1, 3, 0.0)
    unit.build()
    for variable in unit.variables:
        variable.assign(np.zeros(variable.shape))
    unit.gates_bias.assign([5.0] * 4)
    _, saturated = unit.stepper()(np.ones((1, 2, 1, 2), np.float32), None)
    np.testing.assert_allclose(saturated, np.full((1, 2, 1), 2 * 4.1 / 3), rtol=1e-5)


def test_gates_begin_as_the_papers_do():
    for name, gates in (("neural_gpu", [1.0] * 6), ("diagonal_neural_gpu", [0.5] * 3 + [0.7] * 3)):
        model_class = MODELS.get(name)
        model = model_class(model_class.hparams_class(hidden_size=3, num_hidden_layers=1), tokens_spec())
        np.testing.assert_allclose(model.units[0].gates_bias, gates)
        np.testing.assert_array_equal(model.units[0].candidate_bias, [0.0] * 3)


def test_a_target_that_is_longer_than_its_input_cannot_be_right(name):
    model = tiny(name)
    logits = numpy(model({"inputs": batch(sources=(2,))["inputs"], "targets": batch(targets=(5,))["targets"]}))
    assert (logits[0, :2] != 0.0).all()
    assert (logits[0, 2:] == 0.0).all()


def test_a_model_in_bfloat16_is_near(name):
    features = batch(sources=(3, 2), targets=(3, 2))
    found, expected = numpy(tiny(name, dtype="mixed_bfloat16")(features)), numpy(tiny(name)(features))
    np.testing.assert_allclose(found, expected, rtol=0.1, atol=0.3)


def test_a_graph_of_unknown_sizes_takes_any(name):
    model = tiny(name)
    traced = tf.function(lambda ids: model({"inputs": ids}), [tf.TensorSpec([None, None], tf.int32)], autograph=False)
    for sources in ((5, 2), (1,), (3, 8, 4)):
        inputs = batch(sources=sources, targets=sources)["inputs"]
        np.testing.assert_allclose(numpy(traced(inputs)), numpy(model({"inputs": inputs})), rtol=1e-4, atol=1e-5)
