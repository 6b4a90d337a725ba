"""A peer's times count only if it gives the same outputs the same probabilities as t2t."""

import math

import pytest

from benchmarks.decoding import _check_scores
from benchmarks.harness.turns import Turns

OURS = [-1.0, -20.0]


@pytest.mark.parametrize(
    ("scores", "compute_type", "is_kept"),
    [
        ([-1.0005, -20.01], "float32", True),
        ([-1.0, -20.1], "float32", False),
        ([-1.0, -25.0], "int8", True),
        ([math.nan, -20.0], "float32", False),
        ([-1.0, math.nan], "float32", False),
        ([-1.0, math.nan], "int8", False),
        ([-math.inf, -20.0], "int8", False),
    ],
)
def test_a_peer_of_other_probabilities_is_struck_out(scores, compute_type, is_kept):
    searches = {"4": {"outputs": []}}
    ours, peer = (Turns(name, [{"scores": of, "searches": searches}]) for name, of in (("t2t", OURS), ("peer", scores)))
    _check_scores([ours, peer], {"peer": {"compute_type": compute_type}}, [])
    assert bool(peer.figures) == is_kept
    assert is_kept == (not peer.failure)


@pytest.mark.parametrize(
    ("changed", "compute_type", "failure"),
    [(1, "float32", ""), (2, "float32", "only 80.0% of its outputs are ours"), (5, "int8", ""), (6, "int8", "only 40")],
)
def test_a_peer_without_scores_is_judged_by_its_outputs(changed, compute_type, failure):
    """The last sentence does not count, since our output is twice as long as the input."""
    sentences = [[8, 9]] * 11
    outputs = [[5, 6, 7]] * 10 + [[5, 6, 7, 8]]
    others = [[5, 6]] * changed + outputs[changed:10] + [[5]]
    ours, peer = (
        Turns(name, [{"scores": scores, "searches": {"4": {"outputs": found}, "1": {"outputs": []}}}])
        for name, scores, found in (("t2t", OURS, outputs), ("peer", None, others))
    )
    _check_scores([ours, peer], {"peer": {"compute_type": compute_type}}, sentences)
    assert peer.failure.startswith(failure)
    assert bool(peer.failure) == bool(failure) == (not peer.figures)


@pytest.mark.parametrize(
    ("theirs", "failure"),
    [
        ([[5, 6, 7]] * 9, ""),
        ([[5, 6, 7]] * 8, "its outputs have 24 tokens where ours have 30"),
        ([[5, 6, 7]] * 12, "its outputs have 36 tokens where ours have 30"),
    ],
)
def test_a_peer_that_writes_other_lengths_is_struck_out(theirs, failure):
    """Speeds in sentences per second are comparable only for outputs of similar length."""
    ours, peer = (
        Turns(name, [{"scores": OURS, "searches": {"4": {"outputs": found}}}])
        for name, found in (("t2t", [[5, 6, 7]] * 10), ("peer", theirs))
    )
    _check_scores([ours, peer], {"peer": {}}, [[8, 9]] * 10)
    assert peer.failure == failure
    assert bool(peer.figures) == (not failure)
