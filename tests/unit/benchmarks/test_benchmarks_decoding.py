"""A peer is timed only if it gives our probabilities to the same outputs."""

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
    ours, peer = Turns("t2t", [{"scores": OURS}]), Turns("peer", [{"scores": scores}])
    _check_scores([ours, peer], {"peer": {"compute_type": compute_type}})
    assert bool(peer.figures) == is_kept
    assert is_kept == (not peer.failure)
