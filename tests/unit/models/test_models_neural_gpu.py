"""Neural GPUs against independent ones in numpy (tests/reference/neural_gpu.py), by hand, and in learning.

Legend: B batch, P positions, T target length, R rows of the state, D width.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t.errors import UserError
from t2t.hparams.neural_gpu import DiagonalNeuralGpuHParams, NeuralGpuHParams, neural_gpu
from t2t.layers.conv_gru import DiagonalConvGru, hard_sigmoid, hard_tanh, saturating_sigmoid, saturation, shifted
from t2t.layers.costs import Costed
from t2t.models.neural_gpu import DiagonalNeuralGpu, NeuralGpu
from tests.builders import batch, numpy, randomise, tokens_spec, total_loss, weights_of
from tests.models import directional_derivatives
from tests.reference import neural_gpu as reference

SOURCES, TARGETS = (5, 1, 7), (4, 2, 6)
TABLES = {"shared_embedding": False, "shared_embedding_and_softmax_weights": False}


def tiny(diagonal, dtype="float32", **changes):
    """A model of width 7 without dropout and smoothing, its weights random but so small that rounding does not grow."""
    changes = {"hidden_size": 7, "num_hidden_layers": 1, "dropout": 0.0, "label_smoothing": 0.0, **TABLES, **changes}
    family = (DiagonalNeuralGpu, DiagonalNeuralGpuHParams) if diagonal else (NeuralGpu, NeuralGpuHParams)
    model = randomise(family[0](family[1](**changes), tokens_spec(), dtype=dtype))
    for variable in model.variables:
        if variable.path.endswith("kernel"):
            variable.assign(np.asarray(variable) / 3)
    return model


def independent(weights, model):
    hparams = model.hparams
    return reference.NeuralGpu(
        weights, hparams.num_hidden_layers, hparams.state_rows, hparams.steps_per_position,
        isinstance(model, DiagonalNeuralGpu),
    )  # fmt: skip


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "diagonal"])
def diagonal(request):
    return request.param


SHAPES = [
    {}, {"num_hidden_layers": 2, "state_rows": 3}, {"steps_per_position": 2, "kernel_size": 5}, {"state_rows": 2},
]  # fmt: skip


@pytest.mark.parametrize("changes", SHAPES, ids=str)
def test_logits_and_cost_are_those_of_an_independent_model_whatever_the_padding(diagonal, changes):
    model = tiny(diagonal, **changes)
    expected = independent(weights_of(model), model)
    features = batch(sources=SOURCES, targets=TARGETS, widths=(9, 8))
    found, saturated = numpy(model(features)), 0.0
    for b in range(3):
        source, target = (ids[b][ids[b] != 0].tolist() for ids in (features["inputs"], features["targets"]))
        np.testing.assert_allclose(found[b, : len(target)], expected.logits(source, target), rtol=1e-3, atol=1e-4)
        saturated += expected.run(source)[1]
    hidden = model.body(features)
    assert isinstance(hidden, Costed) == diagonal
    if diagonal:
        assert saturated > 0.1
        np.testing.assert_allclose(float(hidden.cost), model.hparams.saturation_cost * saturated, rtol=1e-4)


def test_gradients_are_those_of_finite_differences_of_the_independent_model(diagonal):
    model = tiny(diagonal, **({"saturation_cost": 0.5} if diagonal else {"num_hidden_layers": 2}))
    features = batch(sources=(4, 1, 3), targets=(3, 2, 3), widths=(6, 4))

    def loss(weights):
        expected, total = independent(weights, model), 0.0
        for inputs, targets in zip(features["inputs"], features["targets"], strict=True):
            source, target = inputs[inputs != 0].tolist(), targets[targets != 0]
            for row, gold in zip(expected.logits(source, target), target, strict=True):
                total += np.log(np.exp(row).sum()) - row[gold]
            total += model.hparams.saturation_cost * expected.run(source)[1] if diagonal else 0.0
        return total

    for path, found, expected in directional_derivatives(model, features, loss):
        np.testing.assert_allclose(found, expected, rtol=5e-3, atol=2e-3, err_msg=path)


# === By hand ===


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
    model = tiny(True, hidden_size=3)
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
    for model_class, section, gates in (
        (NeuralGpu, NeuralGpuHParams, [1.0] * 6),
        (DiagonalNeuralGpu, DiagonalNeuralGpuHParams, [0.5] * 3 + [0.7] * 3),
    ):
        model = model_class(section(hidden_size=3, num_hidden_layers=1), tokens_spec())
        np.testing.assert_allclose(model.units[0].gates_bias, gates)
        np.testing.assert_array_equal(model.units[0].candidate_bias, [0.0] * 3)


# === Contracts ===


def test_dropout_is_a_function_of_its_seed_and_differs_from_step_to_step(diagonal):
    model, features = tiny(diagonal, dropout=0.5), batch()
    seeds = [keras.ops.convert_to_tensor(np.array(s, np.int64)) for s in ((1, 2), (1, 2), (1, 3))]
    losses = [total_loss(model, features, seed)[0] for seed in seeds]
    assert losses[0] == losses[1] != losses[2]
    assert total_loss(model, features)[0] not in losses


def test_a_target_that_is_longer_than_its_input_cannot_be_right(diagonal):
    model = tiny(diagonal)
    logits = numpy(model({"inputs": batch(sources=(2,))["inputs"], "targets": batch(targets=(5,))["targets"]}))
    assert (logits[0, :2] != 0.0).all()
    assert (logits[0, 2:] == 0.0).all()


def test_a_model_in_bfloat16_is_near(diagonal):
    features = batch(sources=(3, 2), targets=(3, 2))
    found, expected = numpy(tiny(diagonal, "mixed_bfloat16")(features)), numpy(tiny(diagonal)(features))
    np.testing.assert_allclose(found, expected, rtol=0.1, atol=0.3)


def test_paths_of_weights_are_a_format_and_stay(diagonal):
    names = ("gates_kernel", "gates_bias", "candidate_kernel", "candidate_bias")
    assert sorted(weights_of(tiny(diagonal))) == sorted(
        ["source_embedding/table", "output_embedding/table", *(f"unit_0/{name}" for name in names)]
    )


def test_a_kernel_has_a_middle():
    with pytest.raises(UserError, match="hparam kernel_size=4 is even; it must be odd, to have a middle"):
        neural_gpu().replace(kernel_size=4).freeze()


def test_a_graph_of_unknown_sizes_takes_any(diagonal):
    model = tiny(diagonal)
    traced = tf.function(lambda ids: model({"inputs": ids}), [tf.TensorSpec([None, None], tf.int32)], autograph=False)
    for sources in ((5, 2), (1,), (3, 8, 4)):
        inputs = batch(sources=sources, targets=sources)["inputs"]
        np.testing.assert_allclose(numpy(traced(inputs)), numpy(model({"inputs": inputs})), rtol=1e-4, atol=1e-5)
