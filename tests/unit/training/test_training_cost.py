"""The cost of an update against a count by hand, product by product."""

import numpy as np
import pytest

from t2t.hparams.lstm import LstmHParams
from t2t.models.lstm import LstmSeq2seq
from t2t.training.cost import UpdateCost, update_cost
from tests.builders import tiny_transformer, tokens_spec


def by_hand(rows, S, T, D, F, N, V):
    """Section 3 of the paper, written out: 2 m k n for each product of (m, k) and (k, n), times three for training."""
    project, inner = 2 * D * D, 2 * D * F  # of one position
    encoder = N * (S * (4 * project + 2 * inner) + 2 * 2 * S * S * D)
    of_target = 4 * project + 2 * project + 2 * inner  # self-attention; query and output of the other; feed-forward
    decoder = N * (T * of_target + S * 2 * project + 2 * 2 * T * T * D + 2 * 2 * T * S * D)
    return 3 * rows * (encoder + decoder + T * 2 * D * V)


@pytest.mark.parametrize(("rows", "S", "T"), [(4, 9, 3), (1, 5000, 4000)])
def test_a_transformer(rows, S, T):
    model = tiny_transformer(tokens_spec(inputs=13, targets=13))
    batch = {"inputs": np.zeros((rows, S), np.int32), "targets": np.zeros((rows, T), np.int32)}
    assert update_cost(model, batch) == UpdateCost(by_hand(rows, S, T, D=8, F=12, N=2, V=13), loops=False)


def test_a_loop_without_products_leaves_nothing_out():
    """SSRUs in the decoder: two products of (D, D) for each position in place of self-attention's, and a recurrence."""
    model = tiny_transformer(tokens_spec(inputs=13, targets=13), decoder_layer="ssru")
    rows, S, T, D, N = 2, 5, 7, 8, 2
    batch = {"inputs": np.zeros((rows, S), np.int32), "targets": np.zeros((rows, T), np.int32)}
    saved = 3 * rows * N * (T * (4 - 2) * 2 * D * D + 2 * 2 * T * T * D)
    assert update_cost(model, batch) == UpdateCost(by_hand(rows, S, T, D, 12, N, 13) - saved, loops=False)


def test_a_language_model_has_no_encoder():
    model = tiny_transformer(tokens_spec(inputs=0))
    T, D, F, N, V = 6, 8, 12, 2, 13
    expected = N * (T * (4 * 2 * D * D + 2 * 2 * D * F) + 2 * 2 * T * T * D) + T * 2 * D * V
    assert update_cost(model, {"targets": np.zeros((1, T), np.int32)}).flops == 3 * expected


def test_loops_are_left_out_and_told():
    """One LSTM layer: outside the loops are only x W, with W of (D, 4D), of both sides, and the logits."""
    model = LstmSeq2seq(LstmHParams(hidden_size=8, num_hidden_layers=1), tokens_spec())
    batch = {"inputs": np.zeros((3, 5), np.int32), "targets": np.zeros((3, 4), np.int32)}
    assert update_cost(model, batch) == UpdateCost(3 * 3 * 2 * (9 * 8 * 32 + 4 * 8 * 13), loops=True)


def test_the_base_model_by_the_paper():
    """The figures of docs/numerics.md: base 9.5e17 and big 9.7e18 for the updates of Table 2's runs."""
    for sizes, updates, expected in (
        ({"D": 512, "F": 2048}, 100_000, 9.5e17),
        ({"D": 1024, "F": 4096}, 300_000, 9.7e18),
    ):
        pairs = 25_000 / 30
        cost = by_hand(1, 30, 30, **sizes, N=6, V=37_000) * pairs * updates
        assert cost == pytest.approx(expected, rel=0.01)
