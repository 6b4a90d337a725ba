"""LSTM models: their cells, caches, dropout, and several problems.

Legend: B batch, S source length, T target length, N rows decoded together, K beams.
"""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t.hparams.lstm import LstmAttentionHParams, LstmHParams
from t2t.layers.recurrent import RecurrentLayer
from t2t.models.lstm import LstmSeq2seq, LstmSeq2seqAttention
from t2t.specs.features import ProblemSpec
from tests.builders import batch, numpy, randomise, tokens_spec, weights_of
from tests.errors import refused
from tests.models import check_dropout_follows_its_seed, check_steps_of_beams, dropout_seed
from tests.unit.models.references import tiny


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


def test_a_reordered_cache_goes_on_from_the_other_beam(attention):
    model = lstm(attention)
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


def test_a_problem_without_inputs_is_refused():
    with refused("LstmSeq2seq", "tokens", "absent"):
        LstmSeq2seq(LstmHParams(), tokens_spec(inputs=0))


# === Several problems ===


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
