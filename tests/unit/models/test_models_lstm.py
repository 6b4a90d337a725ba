"""The LSTM models against independent ones in numpy (tests/reference/lstm.py), in decoding, and in learning.

Legend: B batch, S source length, T target length, N rows decoded together, K beams.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t.errors import UserError
from t2t.hparams.lstm import LstmAttentionHParams, LstmHParams, lstm_attention_tiny, lstm_seq2seq_tiny
from t2t.models.lstm import LstmSeq2seq, LstmSeq2seqAttention
from tests.builders import batch, numpy, padded, randomise, rows, tokens_spec, total_loss, weights_of
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
    features = batch(sources=SOURCES, targets=TARGETS, widths=(9, 8))
    found = numpy(model(features))
    for b in range(3):
        source, target = (ids[b][ids[b] != 0].tolist() for ids in (features["inputs"], features["targets"]))
        expected = reference.logits(source, target)
        np.testing.assert_allclose(found[b, : len(target)], expected, rtol=1e-3, atol=2e-5)


def test_gradients_are_those_of_finite_differences_of_the_independent_model(attention):
    model = tiny(attention, encoder_direction="reversed", label_smoothing=0.0)
    features = batch(sources=SOURCES, targets=TARGETS, widths=(9, 8))

    @tf.function(input_signature=[{name: tf.TensorSpec([None, None], tf.int32) for name in features}])
    def gradients_of(features):
        with tf.GradientTape() as tape:
            loss, _ = model.loss_sum(model.body(features), features["targets"])
        return tape.gradient(loss, [v.value for v in model.trainable_variables])

    def reference_loss(weights):
        reference, loss = Lstm(weights, 2, "reversed", attention, True), 0.0
        for inputs, targets in zip(features["inputs"], features["targets"], strict=True):
            target = targets[targets != 0]
            logits = reference.logits(inputs[inputs != 0].tolist(), target.tolist())
            loss += sum(np.log(np.exp(row).sum()) - row[i] for row, i in zip(logits, target, strict=True))
        return loss

    weights = {path: value.astype(np.float64) for path, value in weights_of(model).items()}
    rng = np.random.default_rng(0)
    for variable, gradient in zip(model.trainable_variables, gradients_of(features), strict=True):
        path, gradient = variable.path.partition("/")[2], np.asarray(tf.convert_to_tensor(gradient))
        along = rng.normal(size=gradient.shape)
        up, down = (reference_loss({**weights, path: weights[path] + e * along}) for e in (1e-5, -1e-5))
        np.testing.assert_allclose((gradient * along).sum(), (up - down) / 2e-5, rtol=2e-3, atol=1e-3, err_msg=path)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_steps_of_several_beams_are_teacher_forcing(attention, dtype):
    model = tiny(attention, dtype)
    features = batch(sources=SOURCES, targets=(5, 5, 5))
    beams = 2
    rng = np.random.default_rng(3)
    targets_NT = padded(rows(rng, [6] * 6))
    full_NTV = numpy(model({"inputs": np.repeat(features["inputs"], beams, axis=0), "targets": targets_NT}))

    @tf.function(reduce_retracing=True)
    def run(inputs, targets_NT):
        encoded = model.prepare_steps(model.encode({"inputs": inputs}))
        cache, last = model.init_cache(encoded, tf.shape(targets_NT)[0], None, beams), tf.zeros_like(targets_NT[:, 0])
        found = []
        for position in range(6):
            logits, after = model.decode_step(last, position, cache, encoded)
            tf.nest.map_structure(lambda old, new: old.shape.assert_is_compatible_with(new.shape), cache, after)
            assert [x.dtype for x in tf.nest.flatten(after)] == [x.dtype for x in tf.nest.flatten(cache)]
            cache, last = after, targets_NT[:, position]
            found.append(logits)
        return tf.stack(found, axis=1)

    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype == "float32" else {"rtol": 0.05, "atol": 0.15}
    np.testing.assert_allclose(numpy(run(features["inputs"], targets_NT)), full_NTV, **tolerance)


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
    features = batch()
    seeds = [keras.ops.convert_to_tensor(np.array(s, np.int64)) for s in ((1, 2), (1, 2), (1, 3))]
    losses = [total_loss(model, features, seed)[0] for seed in seeds]
    assert losses[0] == losses[1] != losses[2]
    assert total_loss(model, features)[0] not in losses
    scale_TBD = numpy(model.decoder.dropouts[1](np.ones((4, 3, 8), np.float32), seed=seeds[0]))
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


def reversals(rng, count, longest=8, symbols=4):
    """Random sequences of ids and the same from last to first."""
    inputs = [rng.integers(2, 2 + symbols, rng.integers(1, longest + 1)).tolist() for _ in range(count)]
    return {
        "inputs": padded([[*row, 1] for row in inputs], longest + 1),
        "targets": padded([[*row[::-1], 1] for row in inputs], longest + 1),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model_class", "hparams"),
    [
        (LstmSeq2seq, lstm_seq2seq_tiny()),
        (LstmSeq2seqAttention, lstm_attention_tiny()),
        (LstmSeq2seqAttention, lstm_attention_tiny().replace(attention_mechanism="luong")),
    ],
    ids=["plain", "bahdanau", "luong"],
)
def test_learns_to_reverse_sequences_that_it_has_not_seen(model_class, hparams):
    keras.utils.set_random_seed(1)
    model = model_class(hparams.model, tokens_spec(6, 6))
    optimizer = keras.optimizers.Adam(0.01, global_clipnorm=hparams.clip_grad_norm)

    @tf.function(autograph=False)
    def update(features):
        with tf.GradientTape() as tape:
            loss, tokens = model.loss_sum(model.body(features), features["targets"])
            loss = loss / tokens
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    rng = np.random.default_rng(1)
    for step in range(600):
        optimizer.learning_rate = 0.01 * (1 - step / 600)
        update(reversals(rng, 64))
    unseen = reversals(np.random.default_rng(2), 200)
    found = greedy(model, unseen["inputs"], 9)
    assert np.mean((found == unseen["targets"]).all(axis=1)) >= 0.99


def greedy(model, inputs, length):
    """Ids (B, length) as decoding one step at a time gives them, 0 after the end."""
    encoded = model.encode({"inputs": inputs})
    cache, last = model.init_cache(encoded, len(inputs), length), np.zeros(len(inputs), np.int32)
    ended, found = np.zeros(len(inputs), bool), []
    for position in range(length):
        logits, cache = model.decode_step(last, position, cache, encoded)
        last = np.where(ended, 0, numpy(logits).argmax(axis=-1)).astype(np.int32)
        ended |= last == 1
        found.append(last)
    return np.stack(found, axis=1)
