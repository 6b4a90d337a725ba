"""A peer's training speed is compared only if its loss is close to that of t2t."""

import math

import pytest

from benchmarks.harness.turns import Turns
from benchmarks.training import _check_losses


@pytest.mark.parametrize(
    ("losses", "is_kept"), [([7.0, 8.9], True), ([5.0, 5.0], True), ([7.0, 9.1], False), ([math.nan, 6.0], False)]
)
def test_a_peer_that_does_not_learn_is_struck_out(losses, is_kept):
    ours, peer = Turns("t2t", [{"loss": 6.0}]), Turns("peer", [{"loss": loss} for loss in losses])
    _check_losses([ours, peer])
    assert bool(peer.figures) == is_kept
    assert peer.failure == ("" if is_kept else f"its last loss is {losses[0]:.3g} nats a token, ours 6")
