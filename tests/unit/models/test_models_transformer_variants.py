"""Inputs and targets as one sequence, recurrence over depth, initial weights, and packed examples.

Legend: B batch, S source length, T target length, L length of packed rows, D width.
"""

import dataclasses
import re

import numpy as np
import pytest
import tensorflow as tf

from t2t.data.reading.packing import pack_ids
from t2t.hparams.lstm import lstm_seq2seq
from t2t.hparams.transformer_cmlm import TransformerCmlmHParams
from t2t.hparams.universal_transformer import universal_transformer_tiny
from t2t.layers.attention import MultiHeadAttention
from t2t.layers.mode import Costed, Costs, in_mode
from t2t.models.lstm import LstmSeq2seq
from t2t.models.transformer import Transformer, TransformerLm
from t2t.models.transformer_cmlm import TransformerCmlm
from t2t.models.universal_transformer import Halting, Recurrence
from tests.builders import batch, numpy, padded, randomise, tiny_hparams, tokens_spec, total_loss, weights_of
from tests.errors import refused
from tests.models import dropout_seed, stepwise
from tests.unit.models.references import MASKED, reference_of, tiny

# === Inputs and targets as one sequence ===

SOURCES, TARGETS = (5, 1, 7), (4, 6, 2)


def test_steps_of_hypotheses_that_each_search_alone_are_the_whole_pass():
    """As in sampling: several rows of one sentence, without reordering of beams."""
    model, inputs = tiny("transformer_prepend"), padded([[5, 6, 1], [7, 1]])
    targets_NT = padded([[4, 5, 1], [6, 1], [9, 2, 1], [3, 8, 1]])
    whole, keep = numpy(model({"inputs": np.repeat(inputs, 2, axis=0), "targets": targets_NT})), targets_NT != 0
    found = stepwise(model, {"inputs": inputs}, targets_NT)
    np.testing.assert_allclose(found[keep], whole[keep], rtol=1e-4, atol=1e-5)


def test_long_sequences_that_are_computed_by_blocks_are_the_same():
    """Only with causal inputs; the full mask is always computed as one matrix product."""
    model = tiny("transformer_prepend", prepend_mode=MASKED)
    features = batch(sources=SOURCES, targets=TARGETS)
    expected = numpy(model(features))
    for layer in model._flatten_layers():
        if isinstance(layer, MultiHeadAttention):
            layer.blockwise_from = 4
    found = numpy(model(features))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert (found != expected).any(), "another computation is rounded in another way"


# === Universal Transformers: halting, the vectors of steps, caches ===

ACT = {"recurrence_type": "act", "act_max_steps": 4, "act_epsilon": 0.05, "act_loss_weight": 0.5}


def test_positions_halt_after_different_numbers_of_steps_and_pay_for_them():
    """The cost is tau times N + R of every position of source and target; padding pays nothing."""
    model = tiny("universal_transformer", **ACT)
    features = batch(sources=SOURCES, targets=TARGETS, widths=(11, 8))
    reference, found = reference_of(model), []
    for inputs, targets in zip(features["inputs"], features["targets"], strict=True):
        before = reference.act.ponder
        reference.logits(inputs[inputs != 0].tolist(), targets[targets != 0].tolist())
        found.append(reference.act.ponder - before)
    means = [ponder / (s + t) for ponder, s, t in zip(found, SOURCES, TARGETS, strict=True)]
    assert max(means) - min(means) > 0.05
    body = model.body(features)
    assert isinstance(body, Costed)
    np.testing.assert_allclose(float(body.cost), 0.5 * sum(found), rtol=1e-4)
    assert not isinstance(tiny("universal_transformer").body(features), Costed)


class Counting:
    """Replaces `Run`: no timing signals, and a layer that adds 1."""

    def add_signals(self, step, x):
        return x

    def advance(self, step, x):
        return x + 1.0


@pytest.mark.parametrize(
    ("h", "steps", "output", "ponder"),
    [(0.4, 8, 0.4 * 1 + 0.4 * 2 + 0.2 * 3, 3 + 0.2), (0.4, 2, 0.4 * 1 + 0.6 * 2, 2 + 0.6), (0.995, 8, 1.0, 1 + 1.0)],
    ids=["halts in the third step", "halts in the last step", "halts at once"],
)
def test_halting_by_hand(h, steps, output, ponder):
    """A state that begins with 0 and grows by 1 in each step, and one probability h throughout."""
    layer = Halting(steps, 0.01, float(np.log(h / (1 - h))), 0.5, name="halting")
    layer.build((None, None, 3))
    layer.unit.kernel.assign(np.zeros((3, 1)))
    x, keep = np.zeros((2, 2, 3), np.float32), np.array([[True, True], [True, False]])
    costs = Costs()
    with in_mode(costs=costs):
        found = numpy(layer(x, keep, run=Counting()))
    np.testing.assert_allclose(found[keep], output, rtol=1e-5)
    np.testing.assert_allclose(float(sum(costs.summed)), 0.5 * 3 * ponder, rtol=1e-5)


def test_halting_probabilities_have_the_gradient_of_the_cost():
    """N is a constant and R = 1 - h_1 - h_2: by h the cost has the derivative -2 tau, and h by the bias h (1 - h)."""
    layer = Halting(8, 0.01, float(np.log(0.4 / 0.6)), 0.5, name="halting")
    layer.build((None, None, 3))
    layer.unit.kernel.assign(np.zeros((3, 1)))
    costs = Costs()
    with tf.GradientTape() as tape, in_mode(costs=costs):
        layer(np.zeros((1, 1, 3), np.float32), run=Counting())
    gradient = tape.gradient(costs.summed[0], layer.unit.bias.value)
    np.testing.assert_allclose(gradient, [-2 * 0.5 * 0.4 * 0.6], rtol=1e-4)


def test_each_step_has_dropout_masks_of_its_own():
    recurrence, seen = Recurrence(3, "interleaved", None, name="recurrence"), []
    recurrence.build((None, None, 4))

    def transform(x, seed):
        seen.append(tuple(np.asarray(seed).tolist()))
        return x

    recurrence(np.zeros((1, 2, 4), np.float32), transform=transform, seed=dropout_seed(2))
    assert len(set(seen)) == 3


@pytest.mark.parametrize("positions", ["rotary", "none"])
def test_the_layout_of_sinusoids_counts_with_any_positions_since_steps_have_them(positions):
    changed = universal_transformer_tiny().replace(sinusoid_layout="split").override(f"positions={positions}")
    assert changed.sinusoid_layout == "split"
    changed.freeze()
    features = batch(sources=SOURCES, targets=TARGETS)
    paper, split = (
        numpy(tiny("universal_transformer", positions=positions, sinusoid_layout=layout)(features))
        for layout in ("interleaved", "split")
    )
    assert np.abs(paper - split).max() > 1e-3


def test_paths_of_weights_are_a_format_and_stay():
    found = {path for path in weights_of(tiny("universal_transformer", **ACT)) if "layer_0" not in path}
    halting = {
        f"{stack}/recurrence/halting/unit/{name}" for stack in ("encoder", "decoder") for name in ("kernel", "bias")
    }
    assert found == {"target_embedding/table", *halting}
    assert {path.split("/")[1] for path in weights_of(tiny("universal_transformer"))} == {"table", "layer_0"}


# === Initial weights, and the places of dropout (section 5.4) ===

D, F, KEYS, VALUES, PIECES = 48, 80, 24, 64, 300
VARIANCES = {
    r"(target|source|output)_embedding/table": 1 / D,
    r"positions/table": 1 / D,
    r"attention/project/(query|key)_kernel": 2 / (D + KEYS),
    r"attention/project/value_kernel": 2 / (D + VALUES),
    r"attention/output/kernel": 2 / (VALUES + D),
    r"ffn/(inner|outer)/kernel": 2 / (D + F),
}
"""Tables N(0, D^-1/2) (section 3.4); kernels of Glorot and Bengio 2010, equation 16: variance 2 / (in + out)."""


@pytest.mark.parametrize("norm_position", ["post", "pre"])
def test_every_weight_begins_with_its_variance(norm_position):
    hparams = tiny_hparams(
        hidden_size=D, filter_size=F, attention_key_channels=KEYS, attention_value_channels=VALUES,
        positions="learned", attention_bias=True, norm_position=norm_position, max_length=200,
        shared_embedding=False, shared_embedding_and_softmax_weights=False,
    )  # fmt: skip
    seen = set()
    for variable in Transformer(hparams, tokens_spec(PIECES, PIECES)).variables:
        value = np.asarray(variable, np.float64)
        matching = [pattern for pattern in VARIANCES if re.search(pattern + "$", variable.path)]
        if matching:
            (pattern,) = matching
            seen.add(pattern)
            # Five standard deviations of the estimate of a variance from so many values; a normal one's is the larger.
            tolerance = 5 * np.sqrt(2 / value.size)
            np.testing.assert_allclose(value.var(), VARIANCES[pattern], rtol=tolerance, err_msg=variable.path)
            assert abs(value.mean()) < 5 * np.sqrt(VARIANCES[pattern] / value.size), variable.path
        else:
            assert re.search(r"(bias|beta|gamma)$", variable.path), variable.path
            np.testing.assert_array_equal(value, float(variable.path.endswith("gamma")))
    assert seen == set(VARIANCES)


def test_dropout_is_on_the_sum_of_embedding_and_position(monkeypatch):
    """Embeddings are 0 and positions 1, so that a sum that lost a value is 0 and one that kept it 1 / (1 - 0.5)."""
    model, given = Transformer(tiny_hparams(positions="learned", layer_prepostprocess_dropout=0.5), tokens_spec()), {}
    model.target_embedding.table.assign(np.zeros_like(model.target_embedding.table))
    model.positions.table.assign(np.ones_like(model.positions.table))
    for stack in (type(model.encoder), type(model.decoder)):

        def noting(self, x, *args, _call=stack.call, **kwargs):
            given[type(self)] = numpy(x)
            return _call(self, x, *args, **kwargs)

        monkeypatch.setattr(stack, "call", noting)
    features = {name: np.full((4, 32), 5, np.int32) for name in ("inputs", "targets")}
    model.body(features, seed=tf.constant([1, 2], tf.int64))
    assert len(given) == 2
    for x in given.values():
        np.testing.assert_allclose(np.unique(x), [0.0, 2.0])
        # 1,024 values: one standard deviation of the fraction is 0.016.
        assert abs((x == 0.0).mean() - 0.5) < 0.08
    model.body(features)
    assert all((x == 1.0).all() for x in given.values())


def test_the_paper_has_dropout_nowhere_else():
    """With section 5.4's dropout at 0, outputs with a seed equal those without a seed."""
    model = Transformer(tiny_hparams(), tokens_spec())
    features = {name: np.full((2, 5), 5, np.int32) for name in ("inputs", "targets")}
    np.testing.assert_array_equal(numpy(model(features, seed=tf.constant([1, 2], tf.int64))), numpy(model(features)))


# === Packed examples ===

PLACES = np.array([0, 0, 1, 1, 1])
"""Row of each of five examples; a third row is empty."""
VARIANTS = {
    "sinusoids": {},
    "learned": {"positions": "learned"},
    "relative": {"positions": "relative", "max_relative_position": 2},
    "relative biases": {
        "positions": "relative_bias",
        "relative_bias_buckets": 8,
        "relative_bias_max_distance": 5,
        "target_start": "pad",
    },
    "rotary": {"positions": "rotary", "num_kv_heads": 1, "norm_position": "pre"},
    "a window, vectors of each head": {"self_attention_window": 3, "relative_keys": 2},
    "inputs whose end is not read": {"input_end": False},
}


def loss_and_gradients(model, features):
    with tf.GradientTape() as tape:
        loss, tokens = model.loss_sum(model.body(features), features["targets"])
    gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
    return float(loss), float(tokens), [np.asarray(tf.convert_to_tensor(g)) for g in gradients]


def packed(features, width=20):
    found = {}
    for name, ids in features.items():
        values, lengths = ids[ids != 0], (ids != 0).sum(axis=1)
        found[name], found[f"{name}_positions"] = pack_ids(values, lengths, PLACES, 3, width)
    return found


@pytest.mark.parametrize(
    ("variant", "has_inputs"), [*((name, True) for name in VARIANTS), ("sinusoids", False), ("relative biases", False)]
)
def test_loss_and_gradients_are_those_of_a_row_each(variant, has_inputs):
    features = batch(sources=(5, 3, 7, 1, 4), targets=(4, 6, 2, 5, 1))
    if not has_inputs:
        features = {"targets": features["targets"]}
    model_class, spec = (Transformer, tokens_spec()) if has_inputs else (TransformerLm, tokens_spec(inputs=0))
    model = randomise(model_class(tiny_hparams(packed_length=20, num_hidden_layers=1, **VARIANTS[variant]), spec))
    loss, tokens, gradients = loss_and_gradients(model, features)
    packed_loss, packed_tokens, packed_gradients = loss_and_gradients(model, packed(features))
    assert packed_tokens == tokens == 18
    np.testing.assert_allclose(packed_loss, loss, rtol=1e-5)
    for variable, expected, found in zip(model.trainable_variables, gradients, packed_gradients, strict=True):
        np.testing.assert_allclose(
            found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max(), err_msg=variable.path
        )


def test_a_trace_takes_packed_rows_of_any_size():
    model = randomise(Transformer(tiny_hparams(packed_length=20, num_hidden_layers=1), tokens_spec()))
    features = packed(batch(sources=(5, 3, 7, 1, 4), targets=(4, 6, 2, 5, 1)))
    unknown = {name: tf.TensorSpec([None, None], tf.int32) for name in features}
    traced = tf.function(lambda given: model.loss_sum(model.body(given), given["targets"])[0], [unknown])
    np.testing.assert_allclose(traced(features), total_loss(model, features)[0], rtol=1e-5)


def test_a_model_that_would_mix_the_examples_of_a_row_is_refused():
    others = ("transformer", "transformer_bart", "transformer_lm", "transformer_moe")
    with refused("packed_length=256", "LstmSeq2seq", "packed_length=0", *others):
        LstmSeq2seq(dataclasses.replace(lstm_seq2seq(), packed_length=256), tokens_spec())
    with refused("packed_length=64", "TransformerCmlm"):
        TransformerCmlm(TransformerCmlmHParams(**dict(tiny_hparams(packed_length=64).items())), tokens_spec())
    with refused("packed_length=64", "objective=minimum_risk", "packed_length=0", "objective=likelihood"):
        Transformer(tiny_hparams(packed_length=64, objective="minimum_risk"), tokens_spec())
