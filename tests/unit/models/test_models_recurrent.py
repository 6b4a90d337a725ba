"""Recurrent models: cells, caches, dropout, several problems; Neural GPUs.

Legend: B batch, S source length, T target length, P positions, R rows of the state, D width.
"""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t.hparams.lstm import LstmAttentionHParams
from t2t.layers.mode import Costed
from t2t.layers.recurrent import RecurrentLayer
from t2t.models.lstm import LstmSeq2seqAttention
from t2t.registry import MODELS
from t2t.specs.features import ProblemSpec
from tests.builders import batch, numpy, randomise, tokens_spec, weights_of
from tests.models import (
    check_dropout_follows_its_seed,
    check_logits,
    check_steps_of_beams,
    directional_derivatives,
    dropout_seed,
    loss_of_reference,
)
from tests.unit.models.references import reference_of, tiny


# === LSTMs ===
def lstm(attention, spec=None, **changes):
    name = "lstm_seq2seq_attention" if attention else "lstm_seq2seq"
    return tiny(name, spec, **changes, **({"attention_mechanism": attention} if attention else {}))


@pytest.fixture(scope="module", params=(None, "bahdanau", "luong"), ids=str)
def attention(request):
    return request.param


@pytest.mark.parametrize("backwards", [False, True])
def test_gated_units_are_those_of_keras(backwards):
    """Keras has the same order of gates, z, r, h, and the same place of r, in its variant `reset_after=False`."""
    x_BSC = np.random.default_rng(0).normal(size=(3, 6, 4)).astype(np.float32)
    keep_BS = np.arange(6) < np.array([[6], [2], [4]])
    layer = RecurrentLayer("gru", 5, backwards)
    layer.build((None, None, 4))
    theirs = keras.layers.GRU(5, reset_after=False, return_sequences=True, return_state=True, go_backwards=backwards)
    theirs.build(x_BSC.shape)
    randomise(layer)
    theirs.set_weights([numpy(weight) for weight in layer.weights])
    hidden_BSD, last = layer(x_BSC, keep_BS)
    for row, length in enumerate((6, 2, 4)):
        expected_1SD, last_1D = theirs(x_BSC[row : row + 1, :length])
        expected_SD = numpy(expected_1SD)[0][:: -1 if backwards else 1]
        np.testing.assert_allclose(numpy(hidden_BSD)[row, :length], expected_SD, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(numpy(last.hidden)[row], numpy(last_1D)[0], rtol=1e-4, atol=1e-5)


def test_dropout_is_a_function_of_its_seed_and_differs_from_step_to_step(attention):
    model = lstm(attention, dropout=0.5)
    check_dropout_follows_its_seed(model)
    scale_TBD = numpy(model.decoder.dropouts[1](np.ones((4, 3, 6), np.float32), seed=dropout_seed(2)))
    assert len({step.tobytes() for step in scale_TBD}) == 4


def test_forget_gates_begin_open_and_other_biases_at_zero():
    model = LstmSeq2seqAttention(LstmAttentionHParams(hidden_size=6, num_hidden_layers=1), tokens_spec())
    biases = {v.path: np.asarray(v) for v in model.variables if v.path.endswith("bias")}
    assert len(biases) == 2
    for bias in biases.values():
        np.testing.assert_array_equal(bias, [0] * 6 + [1] * 6 + [0] * 12)


# === Several problems ===
@pytest.mark.parametrize("attention", ["bahdanau"], indirect=True)
def test_problems_with_decoders_of_their_own_share_the_encoder_alone(attention):
    one, other = (dataclasses.replace(tokens_spec(), name=name) for name in ("one", "other"))
    both = lstm(attention, spec=ProblemSpec(name="one-other", members=(one, other)), shared_decoder=False)
    features, weights = batch(), weights_of(both)
    for own, rest in ((one, "other"), (other, "one")):
        view, alone = both.for_problem(own.name), lstm(attention, spec=own)
        named = {
            path.replace(f"{own.name}_decoder/", "decoder/").removeprefix(f"{own.name}/"): weight
            for path, weight in weights.items()
        }
        for variable in alone.variables:
            variable.assign(named[variable.path.partition("/")[2]])
        np.testing.assert_allclose(numpy(view(features)), numpy(alone(features)), rtol=1e-5, atol=1e-6)
        with tf.GradientTape() as tape:
            loss, _ = view.loss_sum(view.body(features), features["targets"])
        gradients = tape.gradient(loss, [variable.value for variable in both.trainable_variables])
        unreached = {
            variable.path.split("/")[1]
            for variable, gradient in zip(both.trainable_variables, gradients, strict=True)
            if gradient is None
        }
        assert unreached == {rest, f"{rest}_decoder"}
    check_steps_of_beams(both.for_problem("other"), "float32", compiled=False)


# === Mixtures of experts ===
def test_both_mixtures_cost_what_they_are_used_unevenly_and_padding_does_not():
    """Doubling the weight doubles the cost, and padding positions change nothing."""
    narrow, wide = batch(), batch(widths=(13, 11))
    once, twice = (tiny("lstm_moe", expert_balance=balance) for balance in (0.25, 0.5))
    costs = [float(model.body(narrow).cost_per_target) for model in (once, twice)]
    assert costs[0] > 0.0
    np.testing.assert_allclose(costs[1], 2 * costs[0], rtol=1e-5)
    np.testing.assert_allclose(float(once.body(wide).cost_per_target), costs[0], rtol=1e-4)


# === Recurrent continuous translation models ===
def test_the_mean_of_many_columns_is_as_exact_in_half_precision_as_its_type():
    model = tiny("rctm_1", dtype="mixed_bfloat16")
    features = batch(sources=range(257, 273))
    columns_BSD, count_B = model.convolutions(*model.read_source(features))
    expected = numpy(columns_BSD).sum(axis=1) / numpy(count_B)[:, None]
    np.testing.assert_allclose(numpy(model.encode(features)), expected, rtol=2**-8)


# === Neural GPUs against independent ones in numpy ===

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


# === The Extended Neural GPU ===
def silenced(width=3):
    """A model with one memory position per word, whose gated units have zero weights and biases."""
    model = tiny("extended_neural_gpu", hidden_size=width, unfolding_factor=1.0, unfolding_offset=0)
    for variable in model.variables:
        if "unit_0" in variable.path:
            variable.assign(np.zeros(variable.shape))
    return model


def test_each_step_of_the_decoder_drops_other_values():
    """Of 256 values a half is left after the first step, a sixteenth after the fourth."""
    model = silenced(width=256)
    model.decoder.units[0].dropout.rate = 0.5
    ids = np.array([[4, 5, 6, 1]], np.int32)
    hidden = numpy(model.body({"inputs": ids, "targets": ids}, seed=dropout_seed(1)))[0]
    np.testing.assert_allclose((hidden != 0).mean(axis=1), [1 / 2, 1 / 4, 1 / 8, 1 / 16], atol=0.13)
