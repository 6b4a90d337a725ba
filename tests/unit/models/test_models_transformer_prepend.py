"""Inputs and targets as one sequence: what sees what, by a hand-made mask, the loss, steps, and long sequences.

Legend: B batch, S source length, T target length.
"""

import numpy as np
import pytest

from t2t.layers.attention import MultiHeadAttention
from t2t.layers.attention_record import recorded_attention
from tests.builders import batch, numpy, padded, total_loss, weights_of
from tests.models import loss_of_reference
from tests.unit.models.references import FULL, MASKED, reference_of, tiny

SOURCES, TARGETS = (5, 1, 7), (4, 6, 2)


def test_what_each_position_looks_at_is_the_hand_made_mask():
    """Two inputs, padding, and three target positions, the first of which is a zero vector."""
    features = {"inputs": padded([[5, 1]], 3), "targets": padded([[4, 7, 1]])}
    inputs_see_each_other = [[1, 1, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]]
    inputs_see_those_before = [[1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]]
    targets = [[1, 1, 0, 1, 0, 0], [1, 1, 0, 1, 1, 0], [1, 1, 0, 1, 1, 1]]
    for mode, inputs in ((FULL, inputs_see_each_other), (MASKED, inputs_see_those_before)):
        with recorded_attention() as record:
            tiny("transformer_prepend", prepend_mode=mode).body(features)
        assert len(record) == 2
        for (weights_BHPP,) in record.values():
            looked_at = numpy(weights_BHPP)[0].max(axis=0) > 0
            np.testing.assert_array_equal(np.delete(looked_at, 2, axis=0), np.array([*inputs, *targets], bool))


@pytest.mark.parametrize("mode", [MASKED, FULL])
def test_the_loss_is_that_of_the_targets_alone(mode):
    model = tiny("transformer_prepend", prepend_mode=mode, label_smoothing=0.0)
    features = batch(sources=SOURCES, targets=TARGETS, widths=(9, 7))
    loss, tokens = total_loss(model, features)
    assert tokens == sum(TARGETS)
    expected = loss_of_reference(lambda weights: reference_of(model, weights), features)
    np.testing.assert_allclose(loss, expected(weights_of(model)), rtol=1e-5)


def test_steps_of_hypotheses_that_each_search_alone_are_the_whole_pass():
    """As in sampling: several rows of one sentence, without reordering of beams."""
    model, inputs, targets_NT = (
        tiny("transformer_prepend"),
        padded([[5, 6, 1], [7, 1]]),
        padded([[4, 5, 1], [6, 1], [9, 2, 1], [3, 8, 1]]),
    )
    whole = numpy(model({"inputs": np.repeat(inputs, 2, axis=0), "targets": targets_NT}))
    encoded, last = model.encode({"inputs": inputs}), np.zeros(4, np.int32)
    cache = model.init_cache(encoded, 4, None)
    for position in range(3):
        logits, cache = model.decode_step(last, position, cache, encoded)
        last, keep = targets_NT[:, position], targets_NT[:, position] != 0
        np.testing.assert_allclose(numpy(logits)[keep], whole[keep, position], rtol=1e-4, atol=1e-5)


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
