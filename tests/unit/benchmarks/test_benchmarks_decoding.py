"""A peer's times count only if it gives the same outputs the same probabilities as t2t."""

import math

import pytest

from benchmarks.decoding import _check_scores
from benchmarks.harness.turns import Turns

OURS = [-1.0, -20.0]
LENGTHS = [[5, 6, 7]] * 10


def check(ours, theirs, compute_type="float32", scores=OURS, sentences=()):
    """Returns the peer after it was compared with our outputs."""
    sides = [
        Turns(name, [{"scores": of, "searches": {"4": {"outputs": outputs}, "1": {"outputs": []}}}])
        for name, of, outputs in (("t2t", OURS, ours), ("peer", scores, theirs))
    ]
    _check_scores(sides, {"peer": {"compute_type": compute_type}}, sentences)
    assert bool(sides[1].figures) == (not sides[1].failure)
    return sides[1]


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
    assert bool(check([], [], compute_type, scores).figures) == is_kept


@pytest.mark.parametrize(
    ("changed", "compute_type", "failure"),
    [(1, "float32", ""), (2, "float32", "80.0%"), (5, "int8", ""), (6, "int8", "40.0%")],
)
def test_a_peer_without_scores_is_judged_by_its_outputs(changed, compute_type, failure):
    """The last sentence does not count, since our output is twice as long as the input."""
    outputs = [*LENGTHS, [5, 6, 7, 8]]
    others = [[5, 6]] * changed + outputs[changed:10] + [[5]]
    peer = check(outputs, others, compute_type, scores=None, sentences=[[8, 9]] * 11)
    assert failure in peer.failure
    assert bool(failure) == bool(peer.failure)


@pytest.mark.parametrize(("count", "failure"), [(9, ()), (8, ("24", "30")), (12, ("36", "30"))])
def test_a_peer_that_writes_other_lengths_is_struck_out(count, failure):
    """Speeds in sentences per second are comparable only for outputs of similar length."""
    peer = check(LENGTHS, [[5, 6, 7]] * count, sentences=[[8, 9]] * 10)
    assert all(number in peer.failure for number in failure)
    assert bool(failure) == bool(peer.failure)
