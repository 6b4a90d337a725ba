"""Beam search against enumeration, an independent plain search, and answers worked by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from search_tables import assert_same_hypotheses, hypotheses, tree_state, tree_step_fn

from t2t.search.result import NO_HYPOTHESIS, gnmt, power
from t2t.search.settings import SearchSettings
from tests.reference import beam_search as reference
from tests.searches import beam_search, decode

V, T = 4, 4


def search(tables, beam_size, limits, penalty, vocab_size=V, depth=T, **kwargs):
    step_fn, state = tree_step_fn(tables, vocab_size, depth, beam_size), tree_state(len(tables), beam_size)
    sizes = dict(batch_size=len(tables), beam_size=beam_size, vocab_size=vocab_size, max_steps=limits)
    return beam_search(step_fn, state, length_penalty=penalty, **sizes, **kwargs)


def rows_step_fn(rows_by_step):
    """A step function that gives row n of the batch rows_by_step[step][n], as probabilities."""
    table = np.log(np.asarray(rows_by_step, dtype="float32"))

    def step_fn(ids, position, state):
        return ops.take(ops.convert_to_tensor(table), position, axis=0), state

    return step_fn


# --- Against enumeration ---
@pytest.mark.parametrize("penalty", [gnmt(0.0), gnmt(2.5), power(2.0)], ids=["gnmt0", "gnmt2.5", "power2"])
def test_wide_beam_ranks_like_enumeration_under_limits_of_each_sentence_and_its_early_stop_keeps_the_best(penalty):
    # 27 prefixes without end of sequence exist before the last step, so 32 beams lose none.
    limits = [1, 2, 3, *[4] * 8]
    tables = reference.random_tables(len(limits), V, T, seed=1)
    limits_B = np.asarray(limits, "int32")
    result, stopped = (search(tables, 32, limits_B, penalty, only_best=best) for best in (False, True))
    for sentence, limit in enumerate(limits):
        expected = reference.enumerate_all(tables[sentence], V, limit, penalty)[:32]
        assert_same_hypotheses(hypotheses(result, sentence), expected)
        assert_same_hypotheses(hypotheses(stopped, sentence)[:1], expected[:1])


def test_beam_wider_than_all_hypotheses_returns_each_once_and_empty_rows_after():
    tables = reference.random_tables(1, V, T, seed=2)
    result = search(tables, 128, T, gnmt(0.6), only_best=False)
    # 1 + 3 + 9 + 27 end by themselves, 81 are cut off.
    assert_same_hypotheses(hypotheses(result, 0), reference.enumerate_all(tables[0], V, T, gnmt(0.6)))
    assert np.count_nonzero(result.lengths) == 121
    assert (np.asarray(result.scores)[0, 121:] == np.float32(NO_HYPOTHESIS)).all()
    assert (np.asarray(result.log_probs)[0, 121:] == np.float32(NO_HYPOTHESIS)).all()
    assert not np.asarray(result.ids)[0, 121:].any()


@pytest.mark.parametrize("beam_size", [2, 3])
def test_narrow_beam_tells_the_truth_and_never_beats_enumeration(beam_size):
    # Nearly uniform probabilities: long hypotheses win only late, after a narrow beam has dropped them.
    tables, penalty = reference.random_tables(40, V, T, seed=4, spread=0.5), power(1.0)
    result = search(tables, beam_size, T, penalty, only_best=False)
    short = 0
    for sentence, table in enumerate(tables):
        best = reference.enumerate_all(table, V, T, penalty)[0][0]
        for score, log_prob, tokens in hypotheses(result, sentence):
            assert log_prob == pytest.approx(reference.log_prob_of(table, tokens), rel=1e-5)
            assert score == pytest.approx(log_prob / penalty(len(tokens)), rel=1e-5)
            assert score <= best + 1e-5
        short += hypotheses(result, sentence)[0][0] < best - 1e-5
    assert short, "the cases are too easy to tell a beam from enumeration"


# --- Against an independent search ---
@pytest.mark.parametrize(("penalty", "beam_size", "only_best"), [
    (gnmt(0.6), 2, True), (gnmt(0.6), 3, False), (power(1.0), 3, True), (power(1.0), 2, False),
], ids=["gnmt-2-best", "gnmt-3-list", "power-3-best", "power-2-list"])  # fmt: skip
def test_equals_plain_python_search(penalty, beam_size, only_best):
    limits = [1 + case % 5 for case in range(20)]
    tables = reference.random_tables(len(limits), 5, 5, seed=5)
    result = search(tables, beam_size, np.asarray(limits, "int32"), penalty, vocab_size=5, depth=5, only_best=only_best)
    for sentence, limit in enumerate(limits):
        expected = reference.beam_search(tables[sentence], 5, beam_size, limit, penalty, only_best)
        assert_same_hypotheses(hypotheses(result, sentence), expected)


# --- Known answers, worked by hand ---------------------------------------------------------------------------------
# Two beams, three tokens, end of sequence 1. After step 0 the beams are [2] (.8) and [0] (.1; it ties with the end of
# sequence, the lower id goes first). Step 1: [2 1] ends with .8 * .5 = .4, [2 0] goes on with .8 * .4 = .32. Step 2:
# [2 0 1] ends with .32 * .9 = .288.
STEP_0 = [[0.1, 0.1, 0.8], [0.1, 0.1, 0.8]]
STEP_1 = [[0.4, 0.5, 0.1], [0.2, 0.4, 0.4]]
STEP_2 = [[0.05, 0.9, 0.05], [0.4, 0.4, 0.2]]
# The second sentence ends with .8 * .6 = .48 after two tokens, or with .8 * .3 * .9 = .216 after three.
SECOND = [STEP_0 * 2, [*STEP_1, [0.3, 0.6, 0.1], [0.2, 0.4, 0.4]], STEP_2 * 2]


def by_hand(*hypotheses):
    """Returns (score, log_prob, tokens) of each (probability, penalty, tokens)."""
    return [(math.log(p) / penalty, math.log(p), tokens) for p, penalty, tokens in hypotheses]


@pytest.mark.parametrize(("rows", "beams", "alpha", "only_best", "expected"), [
    # .4 beats .32, whatever follows: the search ends when the best is certain, and [2 0 1] is never seen.
    ([STEP_0, STEP_1, STEP_2], 2, 0.0, True, [[(0.4, 1, (2, 1))]]),
    ([STEP_0, STEP_1, STEP_2], 2, 0.0, False, [[(0.4, 1, (2, 1)), (0.288, 1, (2, 0, 1))]]),
    # The length penalty turns the order, of each sentence apart.
    (SECOND, 2, 3.5, False, [[(0.288, (8 / 6) ** 3.5, (2, 0, 1)), (0.4, (7 / 6) ** 3.5, (2, 1))],
                             [(0.48, (7 / 6) ** 3.5, (2, 1)), (0.216, (8 / 6) ** 3.5, (2, 0, 1))]]),
    # Limit 2: [0 0] is cut off with .9 * .9 = .81, [1] has ended with .06, [0 1] with .9 * .06 = .054. The scores
    # are normalised for all three, where Tensor2Tensor would return the cut one, had nothing ended, with ln(.81).
    ([[[0.9, 0.06, 0.04]] * 3] * 2, 3, 1.0, False, [[(0.81, 7 / 6, (0, 0)), (0.054, 7 / 6, (0, 1)), (0.06, 1, (1,))]]),
    # Without any end the best cut ones are returned.
    ([[[0.7, 0.0, 0.3]] * 2] * 2, 2, 1.0, True, [[(0.49, 7 / 6, (0, 0)), (0.21, 7 / 6, (0, 2))]]),
    # Forbidden tokens make no hypotheses.
    ([[[0.0, 0.0, 1.0]] * 3, [[0.25, 0.75, 0.0]] * 3], 3, 0.0, False, [[(0.75, 1, (2, 1)), (0.25, 1, (2, 0))]]),
    # One beam is greedy. Token 0 (.7), then the end of sequence (.6).
    ([[[0.7, 0.3]], [[0.4, 0.6]], [[0.5, 0.5]]], 1, 0.0, True, [[(0.42, 1, (0, 1))]]),
    # Nothing ends within two tokens: [2 2] with .7 * .5 = .35.
    ([[[0.2, 0.1, 0.7]], [[0.4, 0.1, 0.5]]], 1, 1.0, True, [[(0.35, 7 / 6, (2, 2))]]),
    # Ties go to the earlier, then to the lower beam, then to the lower token.
    ([[[1 / 3] * 3] * 2] * 2, 2, 0.0, False, [[(1 / 3, 1, (1,)), (1 / 9, 1, (0, 0))]]),
    ([[[1 / 3] * 3] * 2] * 3, 2, 0.0, False, [[(1 / 3, 1, (1,)), (1 / 9, 1, (0, 1))]]),
])  # fmt: skip
def test_known_answers(rows, beams, alpha, only_best, expected):
    sizes = dict(batch_size=len(expected), vocab_size=len(rows[0][0]), max_steps=len(rows))
    settings = SearchSettings(beam_size=beams, alpha=alpha, only_best=only_best)
    with np.errstate(divide="ignore"):
        result = decode(rows_step_fn(rows), (), settings, **sizes)
    for sentence, wanted in enumerate(expected):
        found = hypotheses(result, sentence)
        assert_same_hypotheses(found[:1] if len(wanted) == 1 else found, by_hand(*wanted))
        assert (2, 0, 1) not in [tokens for _, _, tokens in found] or len(wanted) > 1
        empty = np.asarray(result.scores)[sentence, len(found) :]
        assert (empty == np.float32(NO_HYPOTHESIS)).all()


# --- What the step function sees ---
@pytest.mark.parametrize(("rows", "sizes", "alpha", "expected"), [
    ([[0.1, 0.1, 0.8]] * 4, {"batch_size": 2, "max_steps": 2}, 0.0, [([0, 0, 0, 0], 0), ([2, 0, 2, 0], 1)]),
    # The loop ends with the last sentence.
    ([[0.005, 0.99, 0.005]] * 2, {"batch_size": 1, "max_steps": 20}, 0.0, [([0, 0], 0)]),
    # At alpha 10 one more end of sequence in eight tokens could still win by the bound, so the search goes on longer.
    ([[0.005, 0.99, 0.005]] * 2, {"batch_size": 1, "max_steps": 8}, 10.0, [([0, 0], 0), ([0, 2], 1)]),
])  # fmt: skip
def test_step_function_is_told_the_last_ids_and_positions_until_all_is_certain(rows, sizes, alpha, expected):
    seen = []

    def step_fn(ids, position, state):
        seen.append((np.asarray(ids).tolist(), int(position)))
        return ops.log(ops.convert_to_tensor(rows)), state

    beam_search(step_fn, (), beam_size=2, vocab_size=3, length_penalty=gnmt(alpha), **sizes)
    assert seen[:2] == expected


def test_state_may_be_nested_and_loses_no_row():
    tables = reference.random_tables(3, V, T, seed=7)
    tree = tree_step_fn(tables, V, T, 3)

    def step_fn(ids, position, state):
        log_probs, inner = tree(ids, position, state["deep"][0])
        history = ops.where(ops.arange(T) == position, ids[:, None], state["history"])
        return log_probs, {"deep": [inner], "history": history}

    state = {"deep": [tree_state(3, 3)], "history": np.zeros((9, T), "int32")}
    kwargs = dict(batch_size=3, beam_size=3, vocab_size=V, max_steps=T, length_penalty=gnmt(0.6), only_best=False)
    nested = beam_search(step_fn, state, **kwargs)
    for field, expected in zip(nested, search(tables, 3, T, gnmt(0.6), only_best=False), strict=True):
        np.testing.assert_array_equal(field, expected)


# --- Graph mode ---
def test_graph_with_unknown_sizes_equals_eager():
    tables = reference.random_tables(3, V, 3, seed=8)
    step_fn = tree_step_fn(tables, V, 3, 3)

    def run(limits):
        batch_size = ops.shape(limits)[0]
        state = {"node": ops.zeros((batch_size * 3,), "int32")}
        sizes = dict(batch_size=batch_size, beam_size=3, vocab_size=V, max_steps=limits)
        return beam_search(step_fn, state, length_penalty=gnmt(0.6), **sizes)

    compiled = tf.function(run, input_signature=[tf.TensorSpec((None,), "int32")])
    for limits in ([2, 3, 1], [3]):
        for in_graph, eager in zip(compiled(tf.constant(limits)), run(tf.constant(limits)), strict=True):
            np.testing.assert_allclose(in_graph, eager, rtol=1e-6)


def test_compiled_by_xla_equals_eager():
    tables = reference.random_tables(2, V, T, seed=9)
    eager = search(tables, 3, np.asarray([4, 3], "int32"), gnmt(0.6))

    @tf.function(jit_compile=True)
    def compiled(limits):
        return search(tables, 3, limits, gnmt(0.6), width=T)

    for in_graph, expected in zip(compiled(tf.constant([4, 3])), eager, strict=True):
        np.testing.assert_allclose(in_graph, expected, rtol=1e-5)
