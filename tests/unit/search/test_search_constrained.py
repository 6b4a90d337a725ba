"""Searches that forbid or penalise outputs, against enumeration of all outputs under the same rules in plain Python.

Legend: N rows, P prefix length, V vocabulary. Ids: 0 padding, 1 end of sequence."""

import math

import numpy as np
import pytest
from keras import ops
from search_tables import assert_same_hypotheses, hypotheses, tree_state, tree_step_fn

from t2t.search.constraints import delay_end, forbid_padding, forbid_repeats, force_prefix, penalise_end
from t2t.search.result import gnmt
from t2t.search.settings import SearchSettings
from t2t.search.step import NextToken, all_log_probs, best_log_probs
from tests.reference import beam_search as reference
from tests.searches import decode

V, T, EOS = 4, 4, 1
RULES = [
    {"min_length": 2}, {"eos_penalty": 1.5}, {"no_repeat_ngram": 1}, {"no_repeat_ngram": 2},
    {"min_length": 3, "eos_penalty": 0.5, "no_repeat_ngram": 2},
]  # fmt: skip


def repeats(tokens, size):
    grams = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]
    return len(set(grams)) < len(grams)


def ruled(table, min_length=0, eos_penalty=0.0, no_repeat_ngram=0):
    """Returns a table in which what the rules forbid has probability 0, and end of sequence costs its penalty."""

    def rescored(prefix, token, log_prob):
        if token == EOS and len(prefix) < min_length:
            return -math.inf
        if no_repeat_ngram and repeats((*prefix, token), no_repeat_ngram):
            return -math.inf
        return log_prob - eos_penalty * (token == EOS)

    return {prefix: [rescored(prefix, *scored) for scored in enumerate(row)] for prefix, row in table.items()}


def expected_of(table, limit, rules, penalty):
    """Returns all outputs that the rules allow, best first, with the log-probabilities of the model."""
    found = reference.enumerate_all(ruled(table, **rules), V, limit, penalty)
    return [(score, reference.log_prob_of(table, ids), ids) for score, log_prob, ids in found if log_prob > -1e8]


def searched(tables, limits, **settings):
    settings = SearchSettings(**settings)
    rows = settings.rows_per_sentence
    step_fn, state = tree_step_fn(tables, V, T, rows), tree_state(len(tables), rows)
    return decode(step_fn, state, settings, batch_size=len(tables), vocab_size=V, max_steps=np.asarray(limits, "int32"))


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_a_wide_beam_ranks_what_the_rules_allow_as_enumeration_does(rules):
    limits = [1, 2, 3, 4, 4]
    tables = reference.random_tables(len(limits), V, T, seed=31)
    every, best = (searched(tables, limits, beam_size=64, alpha=0.6, only_best=one, **rules) for one in (False, True))
    for sentence, limit in enumerate(limits):
        expected = expected_of(tables[sentence], limit, rules, gnmt(0.6))
        assert_same_hypotheses(hypotheses(every, sentence), expected[:64])
        assert_same_hypotheses(hypotheses(best, sentence)[:1], expected[:1])


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_greedy_search_takes_the_best_allowed_token_each_time(rules):
    tables = reference.random_tables(12, V, T, seed=33)
    result = searched(tables, [T] * 12, method="greedy", alpha=0.0, **rules)
    for sentence, table in enumerate(tables):
        tokens = reference.greedy(ruled(table, **rules), T)
        ((score, log_prob, found),) = hypotheses(result, sentence)
        assert found == tokens
        assert log_prob == pytest.approx(reference.log_prob_of(table, tokens), rel=1e-5)
        assert score == pytest.approx(log_prob - rules.get("eos_penalty", 0.0) * (EOS in tokens), rel=1e-5)


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_samples_keep_the_rules_and_have_the_probability_that_the_model_gives(rules):
    tables = reference.random_tables(4, V, T, seed=34)
    result = searched(tables, [T] * 4, method="sample", samples=16, seed=5, **rules)
    for sentence, table in enumerate(tables):
        allowed = {tokens for _, _, tokens in expected_of(table, T, rules, gnmt(0.0))}
        found = hypotheses(result, sentence)
        assert {tokens for _, _, tokens in found} <= allowed
        for _, log_prob, tokens in found:
            assert log_prob == pytest.approx(reference.log_prob_of(table, tokens), rel=1e-4)


def test_a_prefix_is_written_whatever_the_rules_forbid_in_it():
    tables = reference.random_tables(1, V, T, seed=35)
    settings = SearchSettings(method="greedy", alpha=0.0, no_repeat_ngram=1, min_length=4)
    result = decode(
        tree_step_fn(tables, V, T, 1), tree_state(1, 1), settings, batch_size=1, vocab_size=V, max_steps=T,
        prefix=ops.convert_to_tensor([[2, 2]]),
    )  # fmt: skip
    ((_, log_prob, tokens),) = hypotheses(result, 0)
    assert tokens[:2] == (2, 2)
    assert EOS not in tokens
    assert len(set(tokens[1:])) == 3, "2 is not repeated after the prefix, nor anything else"
    whole, prefix = (reference.log_prob_of(tables[0], part) for part in (tokens, tokens[:2]))
    assert log_prob == pytest.approx(whole - prefix, rel=1e-5), "what is prescribed costs nothing"


def test_repeated_n_grams_of_rows_by_hand():
    ids = [[5, 2, 3, 5, 2, 0, 0], [5, 2, 5, 2, 5, 0, 0], [2, 2, 2, 2, 2, 0, 0], [3, 4, 5, 6, 7, 0, 0]]
    found = NextToken(ops.zeros((4, 8)), normalised=True)
    forbidden = {1: [{2, 3, 5}, {2, 5}, {2}, {3, 4, 5, 6, 7}], 2: [{3}, {2}, {2}, set()], 3: [{3}, {2}, {2}, set()]}
    for size, expected in forbidden.items():
        scores = np.asarray(forbid_repeats(found, ops.convert_to_tensor(ids), 5, size, 8).scores)
        assert [set(np.flatnonzero(row == -np.inf)) for row in scores] == expected
        some = found._replace(scores=found.scores[:, :4], ids=ops.convert_to_tensor([0, 2, 3, 5]))
        scores = np.asarray(forbid_repeats(some, ops.convert_to_tensor(ids), 5, size, 8).scores)
        columns = [{[0, 2, 3, 5][place] for place in np.flatnonzero(row == -np.inf)} for row in scores]
        assert columns == [tokens & {2, 3, 5} for tokens in expected]


# --- Single steps by hand -------------------------------------------------------------------------------------------

LOG_PROBS_NV = np.log(np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]], np.float32))
LOGITS_NV = LOG_PROBS_NV + np.array([[3.0], [-2.0]], np.float32)
FOUND = NextToken(ops.convert_to_tensor(LOGITS_NV), normalised=False)


def test_the_best_of_what_may_be_written_are_normalised():
    np.testing.assert_allclose(all_log_probs(FOUND, 4), LOG_PROBS_NV, atol=1e-6)
    for found in (FOUND, NextToken(ops.convert_to_tensor(LOG_PROBS_NV), normalised=True)):
        best, tokens = best_log_probs(found, 4, 2)
        np.testing.assert_allclose(best, np.log([[0.4, 0.3], [0.4, 0.3]]), atol=1e-6)
        np.testing.assert_array_equal(tokens, [[3, 2], [0, 1]])
    best, tokens = best_log_probs(forbid_padding(FOUND), 4, 2)
    np.testing.assert_array_equal(tokens, [[3, 2, 1], [0, 1, 2]])
    np.testing.assert_allclose(best, [np.log([0.4, 0.3, 0.2]), [-np.inf, *np.log([0.3, 0.2])]], atol=1e-6)
    found = np.asarray(all_log_probs(forbid_padding(FOUND), 4))
    assert (found[:, 0] == -np.inf).all(), "padding is never written, and the others stay"
    np.testing.assert_allclose(found[:, 1:], LOG_PROBS_NV[:, 1:], atol=1e-6)


def test_a_prefix_is_certain_while_it_goes_on():
    prefix_NP = np.array([[2, 3], [1, 0]], np.int32)
    for position, wanted in ((0, {0: 2, 1: 1}), (1, {0: 3}), (2, {}), (9, {})):
        found = np.asarray(all_log_probs(force_prefix(FOUND, prefix_NP, position), 4))
        for row in range(2):
            if row in wanted:
                assert found[row, wanted[row]] == 0.0
                assert (np.delete(found[row], wanted[row]) <= -1e9).all()
            else:
                np.testing.assert_allclose(found[row], LOG_PROBS_NV[row], atol=1e-6)
    assert force_prefix(FOUND, None, 0) is FOUND, "without prefixes nothing is changed"


# === Rules on the end of sequence, by hand ===
@pytest.mark.parametrize(("rule", "arguments", "expected"), [
    # No output ends early unless nothing else may be written.
    (delay_end, (2, 3), [[-np.inf, -np.inf, -3.0], [-np.inf, -2.0, -np.inf]]),
    (delay_end, (3, 3), [[-np.inf, -1.0, -3.0], [-np.inf, -2.0, -np.inf]]),
    (penalise_end, (0.5,), [[-np.inf, -1.5, -3.0], [-np.inf, -2.5, -np.inf]]),
])  # fmt: skip
def test_rules_change_the_end_alone(rule, arguments, expected):
    scores = ops.convert_to_tensor([[-np.inf, -1.0, -3.0], [-np.inf, -2.0, -np.inf]], "float32")
    np.testing.assert_array_equal(rule(NextToken(scores, normalised=True), *arguments).scores, expected)
