"""Attention rollout, compared with the sum over all paths of its graph, which the paper computes by matrix products.

Legend: L layers, H heads, T target length, S source length.
"""

import itertools

import numpy as np
import pytest

from t2t.inference.attention import DECODER, ENCODER, ENCODER_DECODER, AttentionMap
from t2t.inference.rollout import attention_rollout

L, H, T, S = 3, 2, 4, 5


def seen(layers, queries, keys, seed, causal=False):
    """Returns random attention weights."""
    weights_LHQK = np.random.default_rng(seed).uniform(0.1, 1.0, (layers, H, queries, keys))
    weights_LHQK = np.tril(weights_LHQK) if causal else weights_LHQK
    weights_LHQK /= weights_LHQK.sum(axis=-1, keepdims=True)
    names = tuple(map(str, range(max(queries, keys, layers))))
    return AttentionMap(names[:queries], names[:keys], names[:layers], weights_LHQK.astype(np.float32))


MAPS = {ENCODER: seen(L, S, S, 0), DECODER: seen(L, T, T, 1, causal=True), ENCODER_DECODER: seen(L, T, S, 2)}


def test_an_encoders_rollout_is_the_sum_over_all_paths():
    (rollout_LQK,) = attention_rollout({ENCODER: MAPS[ENCODER]})[ENCODER].transpose(1, 0, 2, 3)
    heads_LHSS = MAPS[ENCODER].weights.astype(np.float64)
    for layers in range(1, L + 1):
        for query, key in itertools.product(range(S), range(S)):
            total = 0.0
            for between in itertools.product(range(S), repeat=layers - 1):
                path = [query, *between, key]  # from the top layer down
                steps = zip(reversed(range(layers)), path[:-1], path[1:], strict=True)
                total += np.prod([(heads_LHSS[n, :, a, b].mean() + (a == b)) / 2 for n, a, b in steps])
            assert rollout_LQK[layers - 1, query, key] == pytest.approx(total)


def shares_from_above(layer, place):
    """Returns the shares in a position after a decoder layer, (T + S,): of T output pieces, then of S input pieces."""
    if layer < 0:
        return np.eye(T + S)[place]
    own, cross, encoder = (MAPS[kind].weights.astype(np.float64) for kind in (DECODER, ENCODER_DECODER, ENCODER))

    def of_encoder(below, position):
        if below < 0:
            return np.eye(T + S)[T + position]
        looked = sum(encoder[below, :, position, k].mean() * of_encoder(below - 1, k) for k in range(S))
        return 0.5 * of_encoder(below - 1, position) + 0.5 * looked

    looked = sum(own[layer, :, place, k].mean() * shares_from_above(layer - 1, k) for k in range(T))
    after_own = 0.5 * shares_from_above(layer - 1, place) + 0.5 * looked
    read = sum(cross[layer, :, place, k].mean() * of_encoder(L - 1, k) for k in range(S))
    return 0.5 * after_own + 0.5 * read


def test_a_decoders_rollout_tells_what_was_written_from_what_was_read():
    found = attention_rollout(MAPS)
    assert list(found) == [ENCODER, DECODER, ENCODER_DECODER]
    for place in range(T):
        expected = shares_from_above(L - 1, place)
        np.testing.assert_allclose(found[DECODER][-1, 0, place], expected[:T])
        np.testing.assert_allclose(found[ENCODER_DECODER][-1, 0, place], expected[T:])
    both_LT = found[DECODER].sum(axis=(1, 3)) + found[ENCODER_DECODER].sum(axis=(1, 3))
    np.testing.assert_allclose(both_LT, 1.0)


def test_a_language_model_has_a_rollout_of_its_own():
    rollout = attention_rollout({DECODER: MAPS[DECODER]})[DECODER]
    assert rollout.shape == (L, 1, T, T)
    np.testing.assert_allclose(rollout, np.tril(rollout))
    np.testing.assert_allclose(rollout.sum(axis=-1), 1.0)


@pytest.mark.parametrize(
    ("maps", "kinds"),
    [
        ({ENCODER: seen(L, S, S - 1, 0)}, []),
        ({**MAPS, DECODER: seen(L - 1, T, T, 1)}, [ENCODER]),
        ({ENCODER: MAPS[ENCODER], ENCODER_DECODER: MAPS[ENCODER_DECODER]}, [ENCODER]),
        ({DECODER: MAPS[DECODER], ENCODER_DECODER: MAPS[ENCODER_DECODER]}, []),
        ({**MAPS, ENCODER_DECODER: seen(L, T, S + 1, 2)}, [ENCODER]),
    ],
)
def test_layers_that_do_not_follow_position_by_position_have_none(maps, kinds):
    assert list(attention_rollout(maps)) == kinds
