"""The LSTM models against independent ones in numpy (tests/reference/lstm.py) and in decoding.

Legend: B batch, S source length, T target length, N rows decoded together, K beams.
"""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t.errors import UserError
from t2t.hparams.lstm import LstmAttentionHParams, LstmHParams, lstm_attention_tiny
from t2t.layers.recurrent import RecurrentLayer
from t2t.models.lstm import LstmSeq2seq, LstmSeq2seqAttention
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
from tests.reference.lstm import Lstm

SOURCES, TARGETS = (5, 1, 7), (4, 6, 2)
DIRECTIONS = ("forward", "reversed", "bidirectional")
ATTENTIONS = (None, "bahdanau", "luong")


def tiny(attention, dtype="float32", spec=None, **changes):
    """A model of two layers of 8 units without dropout, its weights random."""
    changes = {"hidden_size": 8, "num_hidden_layers": 2, "dropout": 0.0, **changes}
    if attention:
        hparams = LstmAttentionHParams(attention_mechanism=attention, **changes)
        return randomise(LstmSeq2seqAttention(hparams, spec or tokens_spec(), dtype=dtype))
    return randomise(LstmSeq2seq(LstmHParams(**changes), spec or tokens_spec(), dtype=dtype))


@pytest.fixture(scope="module", params=ATTENTIONS, ids=str)
def attention(request):
    return request.param


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_logits_are_those_of_an_independent_model_whatever_the_padding(attention, direction, tied):
    tables = {} if tied else {"shared_embedding": False, "shared_embedding_and_softmax_weights": False}
    model = tiny(attention, encoder_direction=direction, **tables)
    reference = Lstm(weights_of(model), 2, direction, attention, tied)
    check_logits(model, reference, SOURCES, TARGETS, 9, atol=2e-5)


@pytest.mark.slow
def test_gradients_are_those_of_finite_differences_of_the_independent_model(attention):
    model = tiny(attention, encoder_direction="reversed", label_smoothing=0.0)
    features = batch(sources=SOURCES, targets=TARGETS, widths=(9, 8))
    loss = loss_of_reference(lambda weights: Lstm(weights, 2, "reversed", attention, True), features)
    for path, found, expected in directional_derivatives(model, features, loss):
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-3, err_msg=path)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_steps_of_several_beams_are_teacher_forcing(attention, dtype):
    check_steps_of_beams(tiny(attention, dtype), dtype, SOURCES, length=6)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_steps_of_gated_units_are_teacher_forcing(attention, dtype):
    check_steps_of_beams(tiny(attention, dtype, cell="gru"), dtype, SOURCES, length=6)


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


def test_a_reordered_cache_goes_on_from_the_other_beam(attention):
    model = tiny(attention)
    features = batch(sources=(5, 3), targets=(4, 4))
    encoded = model.encode(features)
    cache = model.init_cache(encoded, 4, None, 2)
    _, cache = model.decode_step(np.array([0, 0, 0, 0], np.int32), 0, cache, encoded)
    last = np.array([3, 4, 5, 6], np.int32)
    _, cache = model.decode_step(last, 1, cache, encoded)
    expected, _ = model.decode_step(np.array([7, 7, 7, 7], np.int32), 2, cache, encoded)
    moved = model.reorder_cache(cache, keras.ops.convert_to_tensor([[1, 1], [1, 0]]))
    found, _ = model.decode_step(np.array([7, 7, 7, 7], np.int32), 2, moved, encoded)
    np.testing.assert_allclose(numpy(found), numpy(expected)[[1, 1, 3, 2]], rtol=1e-6)


def test_dropout_is_a_function_of_its_seed_and_differs_from_step_to_step(attention):
    model = tiny(attention, dropout=0.5)
    check_dropout_follows_its_seed(model)
    scale_TBD = numpy(model.decoder.dropouts[1](np.ones((4, 3, 8), np.float32), seed=dropout_seed(2)))
    assert len({step.tobytes() for step in scale_TBD}) == 4


def test_forget_gates_begin_open_and_other_biases_at_zero():
    model = LstmSeq2seqAttention(LstmAttentionHParams(hidden_size=6, num_hidden_layers=1), tokens_spec())
    biases = {v.path: np.asarray(v) for v in model.variables if v.path.endswith("bias")}
    assert len(biases) == 2
    for bias in biases.values():
        np.testing.assert_array_equal(bias, [0] * 6 + [1] * 6 + [0] * 12)


def test_paths_of_weights_are_a_format_and_stay():
    model = LstmSeq2seqAttention(
        LstmAttentionHParams(hidden_size=4, num_hidden_layers=1, encoder_direction="bidirectional"), tokens_spec()
    )
    cell = ("input_kernel", "recurrent_kernel", "bias")
    assert sorted(weights_of(model)) == sorted([
        "target_embedding/table",
        *(f"encoder/layer_0_{way}/cell/{name}" for way in ("forward", "backward") for name in cell),
        *(f"decoder/cell_0/{name}" for name in cell),
        "decoder/fed_kernel", "decoder/combine_kernel",
        *(f"decoder/attention/{name}_kernel" for name in ("memory", "query", "score")),
    ])  # fmt: skip


def test_two_directions_need_an_even_width():
    with pytest.raises(UserError, match="hparam hidden_size=7 is odd; a bidirectional encoder has half in each"):
        lstm_attention_tiny().replace(hidden_size=7).freeze()


def test_a_problem_without_inputs_is_refused():
    with pytest.raises(UserError, match="LstmSeq2seq with problem tokens: its inputs are absent, the model takes"):
        LstmSeq2seq(LstmHParams(), tokens_spec(inputs=0))


# === Several problems ===


def test_problems_with_decoders_of_their_own_share_the_encoder_alone(attention):
    one, other = (dataclasses.replace(tokens_spec(), name=name) for name in ("one", "other"))
    both = tiny(attention, spec=ProblemSpec(name="one-other", members=(one, other)), shared_decoder=False)
    features, weights = batch(), weights_of(both)
    for own, rest in ((one, "other"), (other, "one")):
        view, alone = both.for_problem(own.name), tiny(attention, spec=own)
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
    check_steps_of_beams(both.for_problem("other"), "float32")
