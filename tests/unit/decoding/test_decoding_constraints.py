"""Allowed next tokens, by hand. Legend: N rows, P prefix length, V vocabulary."""

import numpy as np
from keras import ops

from t2t.decoding.constraints.token_rules import forbid_padding, force_prefix
from t2t.decoding.step import NextToken, all_log_probs, best_log_probs

LOG_PROBS_NV = np.log(np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]], np.float32))
LOGITS_NV = LOG_PROBS_NV + np.array([[3.0], [-2.0]], np.float32)
FOUND = NextToken(ops.convert_to_tensor(LOGITS_NV), normalised=False)


def test_logits_are_normalised_when_asked():
    np.testing.assert_allclose(all_log_probs(FOUND, 4), LOG_PROBS_NV, atol=1e-6)


def test_the_best_are_normalised_alone():
    for found in (FOUND, NextToken(ops.convert_to_tensor(LOG_PROBS_NV), normalised=True)):
        best, tokens = best_log_probs(found, 4, 2)
        np.testing.assert_allclose(best, np.log([[0.4, 0.3], [0.4, 0.3]]), atol=1e-6)
        np.testing.assert_array_equal(tokens, [[3, 2], [0, 1]])


def test_the_best_of_what_may_be_written():
    best, tokens = best_log_probs(forbid_padding(FOUND), 4, 2)
    np.testing.assert_array_equal(tokens, [[3, 2, 1], [0, 1, 2]])
    np.testing.assert_allclose(best, [np.log([0.4, 0.3, 0.2]), [-np.inf, *np.log([0.3, 0.2])]], atol=1e-6)


def test_padding_is_never_written_and_the_others_stay():
    found = np.asarray(all_log_probs(forbid_padding(FOUND), 4))
    assert (found[:, 0] == -np.inf).all()
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


def test_without_prefixes_nothing_is_changed():
    assert force_prefix(FOUND, None, 0) is FOUND
