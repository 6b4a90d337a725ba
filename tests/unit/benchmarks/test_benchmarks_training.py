"""A peer's training speed counts only if its loss is close to ours; precisions are compared fairly."""

import math

import pytest

from benchmarks.harness.rows import OURS
from benchmarks.harness.turns import Turns
from benchmarks.training import OURS_16, _check_losses, _rivals


@pytest.mark.parametrize(
    ("losses", "is_kept"), [([7.0, 8.9], True), ([5.0, 5.0], True), ([7.0, 9.1], False), ([math.nan, 6.0], False)]
)
def test_a_peer_that_does_not_learn_is_struck_out(losses, is_kept):
    ours, peer = Turns("t2t", [{"loss": 6.0}]), Turns("peer", [{"loss": loss} for loss in losses])
    _check_losses([ours, peer])
    assert bool(peer.figures) == is_kept
    assert peer.failure == ("" if is_kept else f"its last loss is {losses[0]:.3g} nats a token, ours 6")


def test_float32_is_compared_with_float32_and_16_bits_with_the_better_of_both():
    speeds = {
        OURS: 5.0, OURS_16: 8.0, "hf_marian": 3.0, "hf_marian_bfloat16": 6.0, "torch_transformer": 4.0,
        "torch_transformer_bfloat16": 2.0, "keras_hub_bfloat16": 7.0,
    }  # fmt: skip
    taken = [Turns(name, [{"rate": speed}]) for name, speed in speeds.items()]
    rivals = [[side.name for side in sides] for sides in _rivals(taken, lambda figures: figures["rate"])]
    assert rivals == [
        [OURS, "hf_marian", "torch_transformer"],
        [OURS_16, "hf_marian_bfloat16", "torch_transformer", "keras_hub_bfloat16"],
    ]
