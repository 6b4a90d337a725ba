"""The coverage penalty, worked by hand.

Legend: B sentences, N rows, S source length.
"""

import math

import numpy as np
import pytest
from keras import ops

from t2t.layers.masks import probabilities
from t2t.search.coverage import covering, log_coverage, reorder_covered, start_coverage
from t2t.search.result import gnmt
from t2t.search.settings import SearchSettings
from t2t.search.step import NextToken
from tests.errors import refused
from tests.searches import beam_search

KEEP_BS = np.array([[True, True, False]])


def looking_step(rows_by_step, weights_by_step, path="decoder/attention"):
    """Returns a step function that reads the probabilities and attention weights of each row and step from tables."""
    tokens, weights = (np.log(np.asarray(table, "float32")) for table in (rows_by_step, weights_by_step))

    def step_fn(ids, position, state):
        scores_NS = ops.take(ops.convert_to_tensor(weights), position, axis=0)
        probabilities(scores_NS[None], None, path)
        return NextToken(ops.take(ops.convert_to_tensor(tokens), position, axis=0), normalised=True), state

    return step_fn


def test_what_was_looked_at_counts_as_once_at_most_and_a_step_that_looks_at_no_source_is_refused():
    coverage_NS = np.array([[1.5, 0.5, 0.0], [0.25, 0.5, 1.0]], "float32")
    expected = [math.log(0.5), math.log(0.25) + math.log(0.5)]
    np.testing.assert_allclose(log_coverage(ops.convert_to_tensor(coverage_NS)), expected, rtol=1e-6)
    step = looking_step([[[0.5, 0.5]]], [[[0.5, 0.5, 1e-30]]], path="decoder/layer_0/self_attention")
    with refused("coverage_penalty=0.2"):
        covering(step, 0.2)(None, 0, start_coverage((), KEEP_BS, 1))
    assert SearchSettings(coverage=0.2).counts_coverage
    for alone in ({"beam_size": 1}, {"method": "greedy"}):
        assert not SearchSettings(coverage=0.2, **alone).counts_coverage, "a search of one hypothesis counts none"


def test_a_step_adds_the_mean_over_heads_and_layers_that_look_at_the_source():
    def step_fn(ids, position, state):
        heads_HS = np.array([[0.5, 0.5, 0.0], [0.1, 0.9, 0.0]]) + 1e-30
        probabilities(ops.convert_to_tensor(np.log(heads_HS)[None, :, None]), None, "decoder/layer_0/encdec_attention")
        probabilities(ops.convert_to_tensor(np.zeros((1, 1, 7))), None, "decoder/layer_0/self_attention")
        probabilities(ops.convert_to_tensor(np.log([[[0.8, 0.2, 1e-30]]])), None, "decoder/layer_1/encdec_attention")
        return NextToken(ops.zeros((1, 4)), normalised=True), state

    step = covering(step_fn, 2.0)
    found, covered = step(None, 0, start_coverage((), KEEP_BS, 1))
    np.testing.assert_allclose(covered.coverage, [[0.55, 0.45, 0.0]], atol=1e-5)
    np.testing.assert_allclose(found.coverage, [2 * (math.log(0.55) + math.log(0.45))], rtol=1e-5)
    found, _ = step(None, 1, covered)
    np.testing.assert_allclose(found.coverage, [2 * math.log(0.9)], rtol=1e-4)


@pytest.mark.parametrize(("beta", "best"), [(0.0, (2, 1)), (1.0, (2, 0, 1))])
def test_it_turns_the_order_towards_what_has_seen_the_whole_source(beta, best):
    # [2 1] has .8 * .5 = .4 and saw the first word alone; [2 0 1] has .8 * .4 * .9 = .288 and saw both.
    tokens = [[[0.1, 0.1, 0.8]] * 2, [[0.4, 0.5, 0.1]] * 2, [[0.05, 0.9, 0.05]] * 2]
    weights = [[[0.9, 0.1, 1e-30]] * 2] * 2 + [[[0.1, 0.9, 1e-30]] * 2]
    step, state = looking_step(tokens, weights), ()
    sizes = {"batch_size": 1, "beam_size": 2, "vocab_size": 3, "max_steps": 3, "only_best": True}
    if beta:
        step, state = covering(step, beta), start_coverage((), KEEP_BS, 2)
        found = beam_search(step, state, length_penalty=gnmt(0.0), reorder=reorder_covered(lambda s, b: s), **sizes)
        missed = math.log(0.288) + math.log(1.0)  # .9 + .9 + .1 and .1 + .1 + .9 are more than one
        np.testing.assert_allclose(np.asarray(found.scores)[0], [missed, math.log(0.4) + math.log(0.2)], rtol=1e-4)
    else:
        found = beam_search(step, state, length_penalty=gnmt(0.0), **sizes)
    assert tuple(np.asarray(found.ids)[0, 0, : np.asarray(found.lengths)[0, 0]]) == best
