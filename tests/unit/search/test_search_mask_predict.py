"""Mask-predict: which words are masked again, by hand and against a slow loop in Python.

Legend: B sentences, K length candidates, N rows, T width, V vocabulary.
"""

import math

import numpy as np
import pytest
from keras import ops

from t2t.search.mask_predict import (
    LengthCandidates,
    least_probable,
    likeliest_lengths,
    mask_predict,
    most_probable_words,
    rank_candidates,
)
from t2t.search.result import NO_HYPOTHESIS
from tests.reference import transformer_variants as reference

V = 9


def table_log_probs(row, words):
    """Returns random log-probabilities (T, V) that are a function of the row and all of its words; None is masked."""
    key = [row, *(0 if word is None else word for word in words)]
    logits = np.random.default_rng(key).normal(0.0, 2.0, (len(words), V))
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def table_predict(counts, seen):
    """Returns a `PredictFn` over the same tables; appends the mask of each iteration to `seen`."""

    def predict(ids, is_masked):
        ids, is_masked = np.asarray(ids), np.asarray(is_masked)
        seen.append(is_masked)
        words, log_probs = np.full(ids.shape, 7, np.int32), np.full(ids.shape, 99.0, np.float32)
        for row, count in enumerate(counts):
            assert ids[row, count] == 1
            assert not ids[row, count + 1 :].any()
            np.testing.assert_array_equal(ids[row, :count] == 0, is_masked[row, :count])
            known = zip(ids[row, :count], is_masked[row], strict=False)
            found = table_log_probs(row, [None if hides else int(i) for i, hides in known])
            for place in np.flatnonzero(is_masked[row]):
                words[row, place] = found[place, 2:].argmax() + 2
                log_probs[row, place] = found[place, words[row, place]]
        return ops.convert_to_tensor(words), ops.convert_to_tensor(log_probs)

    return predict


def test_the_least_probable_words_by_hand_which_are_never_padding_or_end_of_sequence():
    log_probs = np.log([[0.5, 0.1, 0.9, 0.1, 1.0], [0.2, 0.3, 1.0, 1.0, 1.0]]).astype(np.float32)
    is_word = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], bool)
    for counts, expected in (([0, 0], ([], [])), ([1, 1], ([1], [0])), ([3, 2], ([0, 1, 3], [0, 1]))):
        found = np.asarray(least_probable(log_probs, is_word, np.array(counts, np.int32)))
        assert [np.flatnonzero(row).tolist() for row in found] == list(expected), "ties: the earlier word"
    logits = np.log([[0.1, 0.6, 0.1, 0.2], [0.7, 0.1, 0.15, 0.05], [0.1, 0.2, 0.35, 0.35]]).astype(np.float32)
    words, log_probs = most_probable_words(ops.convert_to_tensor(logits))
    assert np.asarray(words).tolist() == [3, 2, 2]
    np.testing.assert_allclose(log_probs, np.log([0.2, 0.15, 0.35]), rtol=1e-5)


def test_the_number_of_masked_words_falls_linearly_and_is_rounded_down():
    """Section 3.1: n = N (T - t) / T, of 7 and 3 words in 4 iterations."""
    counts, seen = [7, 3], []
    mask_predict(table_predict(counts, seen), np.array(counts, np.int32), 4)
    assert [mask.sum(axis=1).tolist() for mask in seen] == [[7, 3], [5, 2], [3, 1], [1, 0]]


@pytest.mark.parametrize("iterations", [1, 2, 3, 10])
def test_words_are_those_of_the_slow_loop(iterations):
    counts = [5, 1, 8, 3]
    ids, log_probs = mask_predict(table_predict(counts, []), np.array(counts, np.int32), iterations)
    ids, log_probs = np.asarray(ids), np.asarray(log_probs)
    for row, count in enumerate(counts):
        words, scores = reference.mask_predict(lambda words, row=row: table_log_probs(row, words), count, iterations)
        assert ids[row].tolist() == [*words, 1, *[0] * (8 - count)]
        np.testing.assert_allclose(log_probs[row], [*scores, *[0.0] * (9 - count)], rtol=1e-5)


def test_lengths_are_the_most_probable_ones_that_fit():
    """No output is empty; of the second sentence an output has at most three tokens, so that two words are left."""
    probabilities = [[0.4, 0.1, 0.2, 0.1, 0.15, 0.05], [0.1, 0.05, 0.05, 0.5, 0.2, 0.1]]
    log_probs = np.log(probabilities).astype(np.float32)
    found = likeliest_lengths(ops.convert_to_tensor(log_probs), 3, np.array([50, 3], np.int32))
    assert np.asarray(found.words).tolist() == [[2, 4, 1], [1, 2, 0]], "ties: the shorter one; 0 where there is none"
    np.testing.assert_allclose(np.asarray(found.log_probs)[0], np.log([0.2, 0.15, 0.1]), rtol=1e-5)
    assert np.asarray(found.log_probs)[1, 2] == -math.inf
    more = likeliest_lengths(ops.convert_to_tensor(log_probs), 8, np.array([50, 50], np.int32))
    assert np.asarray(more.words).tolist() == [[2, 4, 1, 3, 5, 0, 0, 0], [3, 4, 5, 1, 2, 0, 0, 0]]


def test_the_best_candidate_has_the_highest_mean_whatever_its_length_costs():
    ids = np.array([[4, 1, 0], [5, 6, 1], [1, 0, 0], [7, 1, 0]], np.int32)
    log_probs = np.array([[-0.5, 0.0, 0.0], [-0.3, -0.5, 0.0], [0.0, 0.0, 0.0], [np.nan, 0.0, 0.0]], np.float32)
    lengths = np.array([[1, 2], [0, 1]], np.int32)
    candidates = LengthCandidates(lengths, np.log([[0.9, 0.1], [0.5, 0.5]]).astype(np.float32))
    found = rank_candidates(ops.convert_to_tensor(ids), ops.convert_to_tensor(log_probs), candidates)
    assert np.asarray(found.ids)[0].tolist() == [[5, 6, 1], [4, 1, 0]]
    assert np.asarray(found.lengths).tolist() == [[3, 2], [0, 0]], "of the second sentence there is none"
    np.testing.assert_allclose(found.scores, [[-0.4, -0.5], [NO_HYPOTHESIS] * 2], rtol=1e-6)
    np.testing.assert_allclose(found.log_probs[0], [-0.8 + math.log(0.1), -0.5 + math.log(0.9)], rtol=1e-5)
