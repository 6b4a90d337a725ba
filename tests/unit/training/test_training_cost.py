"""The cost of an update against a count by hand, product by product."""

import numpy as np
import pytest

from t2t.training.cost import update_flops
from tests.builders import tiny_transformer, tokens_spec


def by_hand(rows, S, T, D, F, N, V):
    """Section 3 of the paper, written out: 2 m k n for each product of (m, k) and (k, n), times three for training."""
    project, inner = 2 * D * D, 2 * D * F  # of one position
    encoder = N * (S * (4 * project + 2 * inner) + 2 * 2 * S * S * D)
    of_target = 4 * project + 2 * project + 2 * inner  # self-attention; query and output of the other; feed-forward
    decoder = N * (T * of_target + S * 2 * project + 2 * 2 * T * T * D + 2 * 2 * T * S * D)
    return 3 * rows * (encoder + decoder + T * 2 * D * V)


@pytest.mark.parametrize(("rows", "S", "T"), [(1, 5, 7), (4, 9, 3), (1, 5000, 4000)])
def test_a_transformer(rows, S, T):
    model = tiny_transformer(tokens_spec(inputs=13, targets=13))
    batch = {"inputs": np.zeros((rows, S), np.int32), "targets": np.zeros((rows, T), np.int32)}
    assert update_flops(model, batch) == by_hand(rows, S, T, D=8, F=12, N=2, V=13)


def test_a_language_model_has_no_encoder():
    model = tiny_transformer(tokens_spec(inputs=0))
    T, D, F, N, V = 6, 8, 12, 2, 13
    expected = N * (T * (4 * 2 * D * D + 2 * 2 * D * F) + 2 * 2 * T * T * D) + T * 2 * D * V
    assert update_flops(model, {"targets": np.zeros((1, T), np.int32)}) == 3 * expected


def test_the_base_model_by_the_paper():
    """The figures of docs/numerics.md: base 9.5e17 and big 9.7e18 for the updates of Table 2's runs."""
    for sizes, updates, expected in (
        ({"D": 512, "F": 2048}, 100_000, 9.5e17),
        ({"D": 1024, "F": 4096}, 300_000, 9.7e18),
    ):
        pairs = 25_000 / 30
        cost = by_hand(1, 30, 30, **sizes, N=6, V=37_000) * pairs * updates
        assert cost == pytest.approx(expected, rel=0.01)
