"""Inputs and targets as one sequence, against a model in numpy that sees what a hand-made mask lets it see.

Legend: B batch, S source length, T target length.
"""

import numpy as np
import pytest

from t2t.errors import UserError
from t2t.hparams.transformer_prepend import TransformerPrependHParams, transformer_prepend
from t2t.inference.ctranslate2.conversion import model_complaints
from t2t.layers import attention
from t2t.layers.attention_record import recorded_attention
from t2t.layers.blockwise_attention import blockwise_attention
from t2t.models.transformer_prepend import TransformerPrepend
from tests.builders import batch, numpy, padded, randomise, tokens_spec, total_loss, weights_of
from tests.models import (
    check_dropout_follows_its_seed,
    check_logits,
    check_steps_of_beams,
    directional_derivatives,
    loss_of_reference,
)
from tests.reference.transformer import Architecture
from tests.reference.transformer_prepend import PrependedTransformer

SOURCES, TARGETS = (5, 1, 7), (4, 6, 2)
MASKED, FULL = MODES = ("prepend_inputs_masked_attention", "prepend_inputs_full_attention")


def tiny(mode=FULL, dtype="float32", **changes):
    """A model of 8 channels without dropout, its weights random."""
    sizes = {"hidden_size": 8, "filter_size": 12, "num_heads": 2, "num_hidden_layers": 2, "max_length": 8}
    common = {**sizes, "layer_prepostprocess_dropout": 0.0, "prepend_mode": mode}
    return randomise(TransformerPrepend(TransformerPrependHParams(**{**common, **changes}), tokens_spec(), dtype=dtype))


def reference_of(weights, mode, **of_architecture):
    architecture = Architecture(heads=2, encoder_layers=0, decoder_layers=2, **of_architecture)
    return PrependedTransformer(weights, architecture, sees_all=mode == FULL)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("changes", "of_architecture"),
    [
        ({}, {}),
        (
            {"norm_position": "pre", "positions": "learned", "shared_embedding": False},
            {"norm": "pre", "positions": "learned", "shared_embedding": False},
        ),
    ],
    ids=["usual", "learned positions, norms in front, tables of their own"],
)
def test_logits_are_those_of_an_independent_model_whatever_the_padding(mode, changes, of_architecture):
    model = tiny(mode, **changes)
    check_logits(model, reference_of(weights_of(model), mode, **of_architecture), SOURCES, TARGETS, 11)


def test_what_each_position_looks_at_is_the_hand_made_mask():
    """Two inputs, padding, and three target positions, the first of which is a zero vector."""
    features = {"inputs": padded([[5, 1]], 3), "targets": padded([[4, 7, 1]])}
    inputs_see_each_other = [[1, 1, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]]
    inputs_see_those_before = [[1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]]
    targets = [[1, 1, 0, 1, 0, 0], [1, 1, 0, 1, 1, 0], [1, 1, 0, 1, 1, 1]]
    for mode, inputs in ((FULL, inputs_see_each_other), (MASKED, inputs_see_those_before)):
        with recorded_attention() as record:
            tiny(mode).body(features)
        assert len(record) == 2
        for (weights_BHPP,) in record.values():
            looked_at = numpy(weights_BHPP)[0].max(axis=0) > 0
            np.testing.assert_array_equal(np.delete(looked_at, 2, axis=0), np.array([*inputs, *targets], bool))


@pytest.mark.parametrize("mode", MODES)
def test_the_loss_is_that_of_the_targets_alone(mode):
    model = tiny(mode, label_smoothing=0.0)
    features = batch(sources=SOURCES, targets=TARGETS, widths=(9, 7))
    loss, tokens = total_loss(model, features)
    assert tokens == sum(TARGETS)
    expected = loss_of_reference(lambda weights: reference_of(weights, mode), features)
    np.testing.assert_allclose(loss, expected(weights_of(model)), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_gradients_are_those_of_finite_differences_of_the_independent_model(mode):
    model = tiny(mode, label_smoothing=0.0)
    features = batch(sources=(4, 3), targets=(3, 5), widths=(6, 6))
    loss = loss_of_reference(lambda weights: reference_of(weights, mode), features)
    for path, found, expected in directional_derivatives(model, features, loss):
        np.testing.assert_allclose(found, expected, rtol=5e-3, atol=5e-3, err_msg=path)


@pytest.mark.parametrize("mode", MODES)
def test_steps_of_several_beams_are_the_whole_pass(mode):
    check_steps_of_beams(tiny(mode), "float32")


def test_steps_of_hypotheses_that_each_search_alone_are_the_whole_pass():
    """As in sampling: several rows of one sentence, without reordering of beams."""
    model, inputs, targets_NT = tiny(), padded([[5, 6, 1], [7, 1]]), padded([[4, 5, 1], [6, 1], [9, 2, 1], [3, 8, 1]])
    whole = numpy(model({"inputs": np.repeat(inputs, 2, axis=0), "targets": targets_NT}))
    encoded, last = model.encode({"inputs": inputs}), np.zeros(4, np.int32)
    cache = model.init_cache(encoded, 4, None)
    for position in range(3):
        logits, cache = model.decode_step(last, position, cache, encoded)
        last, keep = targets_NT[:, position], targets_NT[:, position] != 0
        np.testing.assert_allclose(numpy(logits)[keep], whole[keep, position], rtol=1e-4, atol=1e-5)


def test_steps_are_the_whole_pass_in_half_precision():
    check_steps_of_beams(tiny(dtype="mixed_bfloat16"), "mixed_bfloat16")


def test_dropout_is_a_function_of_its_seed():
    check_dropout_follows_its_seed(tiny(layer_prepostprocess_dropout=0.5))


def test_long_sequences_that_are_computed_by_blocks_are_the_same(monkeypatch):
    """Only with causal inputs; the full mask is always computed as one matrix product."""
    model, features, calls = tiny(MASKED), batch(sources=SOURCES, targets=TARGETS), []

    def counted(*args):
        calls.append(args)
        return blockwise_attention(*args)

    expected = numpy(model(features))
    monkeypatch.setattr(attention, "BLOCKWISE_FROM", 4)
    monkeypatch.setattr(attention, "blockwise_attention", counted)
    np.testing.assert_allclose(numpy(model(features)), expected, rtol=1e-4, atol=1e-5)
    assert len(calls) == 2


def test_ctranslate2_is_refused():
    (text,) = model_complaints(tiny())
    assert text.startswith("it is a TransformerPrepend, its inputs are tokens, its targets tokens; a Transformer from")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"positions": "rotary"},
            "hparam positions=rotary: inputs and targets are one sequence here, of one stack of self-attention; choose "
            "positions=sinusoidal or learned or none",
        ),
        ({"decoder_layer": "ssru"}, "hparam decoder_layer=ssru: .*; choose decoder_layer=self_attention"),
        ({"num_encoder_layers": 2}, "hparam num_encoder_layers=2: .*; choose num_encoder_layers=0"),
        ({"target_space_embedding": True}, "hparam target_space_embedding=True: .*; choose target_space_embedding=f"),
    ],
)
def test_what_one_stack_cannot_have_is_refused(changes, text):
    with pytest.raises(UserError, match=text):
        transformer_prepend().replace(**changes).freeze()
