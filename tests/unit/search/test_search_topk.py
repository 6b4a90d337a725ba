"""The k best against numpy's stable sort, ties included."""

import numpy as np
import pytest
from keras import ops

from t2t.search.step import (
    best_over_beams,
    block_width,
    keep_top_k,
    keep_top_p,
    most_probable,
    top_k,
    top_k_blockwise,
)


def with_ties(*shape, seed=0):
    """Numbers of which many are equal; quarters, so that sums are exact."""
    return np.random.default_rng(seed).integers(-8, 0, shape).astype("float32") / 4


@pytest.mark.parametrize("k", [1, 9, 17])
@pytest.mark.parametrize("width", [50, 1024, 1031, 8000, 9708])
def test_the_k_best_are_those_of_a_stable_sort_with_blocks_or_without(width, k):
    """Among few different numbers nearly all are ties; among many, hardly any."""
    rng = np.random.default_rng(6)
    values = np.concatenate([with_ties(8, width, seed=7), rng.normal(size=(8, width)).astype("float32")])
    np.testing.assert_array_equal(most_probable(ops.convert_to_tensor(values)), values.argmax(-1))
    values[0], values[1, 5:] = -np.inf, -np.inf
    order = np.argsort(-values, axis=-1, kind="stable")[:, :k]
    expected = np.take_along_axis(values, order, -1)
    for best, indices in (find(ops.convert_to_tensor(values), k) for find in (top_k, top_k_blockwise)):
        np.testing.assert_array_equal(best, expected)
        np.testing.assert_array_equal(np.asarray(indices)[np.isfinite(expected)], order[np.isfinite(expected)])


def test_blocks_are_divisors_of_about_the_root():
    assert block_width(8000, 9) == 32  # 250 maxima and 288 numbers of the chosen blocks
    assert block_width(1031, 9) == 64  # a prime number of ids is padded
    assert block_width(1000, 9) is None
    assert block_width(1024, 100) is None


@pytest.mark.parametrize(("beams", "vocab", "count"), [(3, 7, 6), (4, 2, 8), (2, 50, 4), (5, 3, 10)])
def test_two_stages_equal_one_sort_over_everything(beams, vocab, count):
    values = with_ties(25, beams, vocab, seed=2)
    flat = values.reshape(25, -1)
    order = np.argsort(-flat, axis=-1, kind="stable")[:, :count]
    rows = ops.reshape(values, (-1, vocab))
    candidates = best_over_beams(*top_k_blockwise(rows, min(count, vocab)), beams, count)
    np.testing.assert_array_equal(candidates.log_probs, np.take_along_axis(flat, order, -1))
    np.testing.assert_array_equal(candidates.beams, order // vocab)
    np.testing.assert_array_equal(candidates.tokens, order % vocab)


@pytest.mark.parametrize("k", [1, 4, 10, 99])
def test_keep_top_k_equals_numpy(k):
    values = with_ties(20, 10, seed=3)
    expected = np.full_like(values, -np.inf)
    for row, kept in enumerate(np.argsort(-values, axis=-1, kind="stable")[:, :k]):
        expected[row, kept] = values[row, kept]
    for limit in ({}, {"most": 99}, {"most": k}):
        for number in (k, ops.convert_to_tensor(k, "int32")):
            np.testing.assert_array_equal(keep_top_k(ops.convert_to_tensor(values), number, **limit), expected)


@pytest.mark.parametrize("p", [1e-6, 0.3, 0.55, 0.95])
@pytest.mark.parametrize("ties", [True, False])
def test_keep_top_p_equals_a_plain_loop(p, ties):
    values = with_ties(20, 10, seed=4) if ties else np.random.default_rng(5).normal(size=(20, 10)).astype("float32")
    expected = np.full_like(values, -np.inf)
    for row, logits in enumerate(values):
        probs = np.exp(logits.astype("float64"))
        probs /= probs.sum()
        total = 0.0
        for token in np.argsort(-logits, kind="stable"):
            expected[row, token] = logits[token]
            total += probs[token]
            if total >= p:
                break
    np.testing.assert_array_equal(keep_top_p(ops.convert_to_tensor(values), p), expected)


def test_a_nucleus_of_equals_by_hand():
    """Four equals of exactly 1/4: two of them are 1/2, a third is not needed."""
    for p, kept in ((0.25, [0]), (0.5, [0, 1]), (0.51, [0, 1, 2])):
        assert np.flatnonzero(np.isfinite(keep_top_p(ops.zeros((1, 4)), p))[0]).tolist() == kept
