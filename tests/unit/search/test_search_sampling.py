"""Greedy search and sampling: against plain loops, the requested distribution, and independence of the batch."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from search_tables import hypotheses, tree_state, tree_step_fn

from t2t.search.result import gnmt, power
from t2t.search.sampling import draw
from tests.reference import beam_search as reference
from tests.searches import greedy, sample

V, T = 4, 5
EIGHT = np.log(np.asarray([0.3, 0.02, 0.2, 0.05, 0.13, 0.1, 0.15, 0.05], "float32"))


def run_greedy(tables, limits):
    sizes = dict(batch_size=len(tables), vocab_size=V, max_steps=limits)
    return greedy(tree_step_fn(tables, V, T, 1), tree_state(len(tables), 1), length_penalty=power(1.0), **sizes)


def run_sample(tables, limits=T, samples=2, **kwargs):
    sizes = dict(batch_size=len(tables), vocab_size=V, max_steps=limits, samples=samples)
    step_fn = tree_step_fn(tables, V, T, samples)
    return sample(step_fn, tree_state(len(tables), samples), **sizes, **({"seed": 1} | kwargs))


def single_step(log_probs, samples, **kwargs):
    """Draws many single tokens, end of sequence counting as a token, from one distribution."""

    def step_fn(ids, position, state):
        return ops.broadcast_to(ops.convert_to_tensor(log_probs), (samples, len(log_probs))), state

    sizes = dict(batch_size=1, vocab_size=len(log_probs), max_steps=1, samples=samples)
    return np.asarray(sample(step_fn, (), seed=3, **sizes, **kwargs).ids)[0, :, 0]


def test_greedy_equals_a_plain_loop():
    limits = [1 + case % T for case in range(20)]
    tables = reference.random_tables(len(limits), V, T, seed=11)
    result = run_greedy(tables, np.asarray(limits, "int32"))
    for sentence, limit in enumerate(limits):
        tokens = reference.greedy(tables[sentence], limit)
        ((score, log_prob, found),) = hypotheses(result, sentence)
        assert found == tokens
        assert log_prob == pytest.approx(reference.log_prob_of(tables[sentence], tokens), rel=1e-5)
        assert score == pytest.approx(log_prob / len(tokens), rel=1e-5)


def test_greedy_ties_go_to_the_lower_id_and_a_draw_inverts_the_cumulative_distribution():
    def step_fn(ids, position, state):
        return ops.log(ops.convert_to_tensor([[0.1, 0.1, 0.4, 0.4]])), state

    assert np.asarray(greedy(step_fn, (), batch_size=1, vocab_size=4, max_steps=2).ids).tolist() == [[[2, 2]]]
    probs = ops.convert_to_tensor([[0.25, 0.0, 0.5, 0.25, 0.0]] * 6)
    noise = ops.convert_to_tensor([0.0, 0.2499, 0.25, 0.7499, 0.75, 1 - 2.0**-24], "float32")
    np.testing.assert_array_equal(draw(probs, noise), [0, 0, 2, 2, 3, 3])


def test_one_candidate_is_greedy_a_seed_repeats_and_another_does_not():
    tables = reference.random_tables(6, V, T, seed=12)
    drawn = run_sample(tables, samples=1, top_k=1)
    for found, expected in zip(drawn, run_greedy(tables, T), strict=True):
        if found is not drawn.scores:
            np.testing.assert_array_equal(found, expected)
    tables = reference.random_tables(10, V, T, seed=14)
    first = run_sample(tables, seed=5)
    np.testing.assert_array_equal(first.ids, run_sample(tables, seed=5).ids)
    assert (np.asarray(first.ids) != np.asarray(run_sample(tables, seed=6).ids)).any()
    assert (np.asarray(first.ids)[:, 0] != np.asarray(first.ids)[:, 1]).any()


@pytest.mark.parametrize(("settings", "kept"), [
    ({}, [0, 1, 2, 3, 4, 5, 6, 7]),
    ({"temperature": 0.5}, [0, 1, 2, 3, 4, 5, 6, 7]),
    ({"top_k": 3}, [0, 2, 6]),
    # .3 + .2 + .15 = .65 is short of .7; the fourth, .13, takes it there.
    ({"top_p": 0.7}, [0, 2, 6, 4]),
    # At temperature 2 the weights are square roots; of the four largest, .548 .447 .387 .361, the first two are
    # .571 of the sum, so that the nucleus of .6 has three.
    ({"temperature": 2.0, "top_k": 4, "top_p": 0.6}, [0, 2, 6]),
])  # fmt: skip
def test_draws_follow_the_distribution_asked_for(settings, kept):
    weights = np.zeros(8)
    weights[kept] = np.exp(EIGHT[kept].astype("float64") / settings.get("temperature", 1.0))
    expected = weights / weights.sum()
    count = 4000
    counts = np.bincount(single_step(EIGHT, count, **settings), minlength=8)
    assert not counts[expected == 0].any()
    possible = expected > 0
    chi_square = np.sum((counts[possible] - count * expected[possible]) ** 2 / (count * expected[possible]))
    # The 99.9 % point of chi-square with 7 degrees of freedom is 24.3; the seed is fixed.
    assert chi_square < 24.3


def test_scores_are_the_models_own_whatever_the_temperature():
    tables = reference.random_tables(4, V, T, seed=13)
    result = run_sample(tables, samples=3, temperature=3.0, top_p=0.9, length_penalty=gnmt(1.0))
    for sentence, table in enumerate(tables):
        for score, log_prob, tokens in hypotheses(result, sentence):
            assert log_prob == pytest.approx(reference.log_prob_of(table, tokens), rel=1e-5)
            assert score == pytest.approx(log_prob / ((5 + len(tokens)) / 6), rel=1e-5)


def test_what_a_sentence_draws_does_not_depend_on_its_batch():
    tables = reference.random_tables(5, V, T, seed=15)
    names = np.asarray([40, 41, 42, 43, 44], "int32")
    together = run_sample(tables, np.asarray([5, 3, 4, 5, 2], "int32"), sentence_seeds=names)
    for sentence, limit in enumerate([5, 3, 4, 5, 2]):
        alone = run_sample([tables[sentence]], limit, sentence_seeds=names[sentence : sentence + 1])
        assert hypotheses(alone, 0) == hypotheses(together, sentence)


def test_graph_with_unknown_sizes_equals_eager():
    tables = reference.random_tables(3, V, 3, seed=16)
    step_fn = tree_step_fn(tables, V, 3, 2)

    def run(limits, names):
        batch_size = ops.shape(limits)[0]
        state = {"node": ops.zeros((batch_size * 2,), "int32")}
        sizes = dict(batch_size=batch_size, vocab_size=V, max_steps=limits, samples=2)
        return sample(step_fn, state, seed=2, sentence_seeds=names, top_p=0.9, **sizes)

    compiled = tf.function(run, input_signature=[tf.TensorSpec((None,), "int32")] * 2)
    for limits in ([2, 3, 1], [3]):
        arguments = tf.constant(limits), tf.range(len(limits))
        for in_graph, eager in zip(compiled(*arguments), run(*arguments), strict=True):
            np.testing.assert_allclose(in_graph, eager, rtol=1e-6)
