"""Penalties, random numbers, reordering of beams, limits, and the common entry point of all searches."""

import numpy as np
import pytest
from keras import ops
from search_tables import tree_state, tree_step_fn

from t2t.layers.beams import reorder_rows, repeat_for_beams
from t2t.search.result import gnmt, power
from t2t.search.sampling import threefry_2x32, uniform
from t2t.search.settings import SearchSettings
from tests.reference import beam_search as reference
from tests.searches import beam_search, decode, greedy, sample


# --- Penalties ---
@pytest.mark.parametrize(("penalty", "length", "expected"), [
    (gnmt(1.0), 7, 2.0), (gnmt(2.0), 13, 9.0), (gnmt(0.6), 1, 1.0), (gnmt(0.5), 19, 2.0),  # (5 + 19) / 6 = 4
    (power(0.5), 16, 4.0), (power(1.0), 7, 7.0), (power(2.0), 13, 169.0), (gnmt(0.0), 5, 1.0), (power(0.0), 5, 1.0),
])  # fmt: skip
def test_penalties_by_hand(penalty, length, expected):
    assert penalty(length) == pytest.approx(expected)
    assert float(penalty(ops.convert_to_tensor(float(length)))) == pytest.approx(expected)


# --- Random numbers ---
@pytest.mark.parametrize(("key", "counter", "expected"), [
    # The known-answer vectors for threefry2x32, 20 rounds, published with Salmon et al. 2011 (Random123).
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
])  # fmt: skip
def test_threefry_known_answers(key, counter, expected):
    words = [ops.convert_to_tensor(word, "uint32") for word in (*key, *counter)]
    assert tuple(int(word) for word in threefry_2x32(tuple(words[:2]), tuple(words[2:]))) == expected


def test_uniform_is_even_and_its_arguments_all_count():
    rows = np.arange(20_000, dtype="int32")
    numbers = np.asarray(uniform(1, rows, ops.convert_to_tensor(0), np.zeros_like(rows)))
    assert numbers.min() >= 0
    assert numbers.max() < 1
    # Twenty bins of a thousand each; the 99.9 % point of chi-square with 19 degrees of freedom is 43.8.
    counts = np.bincount((numbers * 20).astype(int), minlength=20)
    assert np.sum((counts - 1000.0) ** 2 / 1000.0) < 43.8
    for seed, first, position, column in ((2, 0, 0, 0), (1, 0, 1, 0), (1, 0, 0, 1), (1, 1, 0, 0)):
        other = uniform(seed, rows + first, ops.convert_to_tensor(position), np.full_like(rows, column))
        assert abs(np.corrcoef(numbers, other)[0, 1]) < 0.03
    for seed in (ops.convert_to_tensor(7), 2**32 + 7):  # a seed may be a tensor or wide
        expected, found = (uniform(one, rows[:4], ops.convert_to_tensor(0), rows[:4]) for one in (7, seed))
        np.testing.assert_array_equal(found, expected)


# --- Beams ---
def test_repeat_then_reorder_keeps_rows_of_a_sentence_together():
    state = {"a": ops.convert_to_tensor([10, 20]), "b": (ops.convert_to_tensor([[1.0, 2.0], [3.0, 4.0]]),)}
    rows = repeat_for_beams(state, 3)
    np.testing.assert_array_equal(rows["a"], [10, 10, 10, 20, 20, 20])
    marked = {"a": rows["a"] + np.asarray([0, 1, 2, 0, 1, 2], "int32"), "b": rows["b"]}
    moved = reorder_rows(marked, ops.convert_to_tensor([[2, 2, 0], [0, 1, 0]], "int32"))
    np.testing.assert_array_equal(moved["a"], [12, 12, 10, 20, 21, 20])
    np.testing.assert_array_equal(moved["b"][0], [[1.0, 2.0]] * 3 + [[3.0, 4.0]] * 3)


# --- The door ---


def test_decode_searches_as_told():
    tables = reference.random_tables(3, 4, 4, seed=21)
    sizes = dict(batch_size=3, vocab_size=4, max_steps=4)

    def same(settings, expected):
        settings = SearchSettings(penalty="power", alpha=0.5, **settings)
        rows = settings.rows_per_sentence
        found = decode(tree_step_fn(tables, 4, 4, rows), tree_state(3, rows), settings, **sizes)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)

    wide = tree_step_fn(tables, 4, 4, 3), tree_state(3, 3)
    narrow = tree_step_fn(tables, 4, 4, 1), tree_state(3, 1)
    penalised = sizes | {"length_penalty": power(0.5)}
    same({"beam_size": 3, "only_best": False}, beam_search(*wide, beam_size=3, only_best=False, **penalised))
    same({"method": "greedy"}, greedy(*narrow, **penalised))
    same({"beam_size": 1}, greedy(*narrow, **penalised))
    chance = dict(seed=9, samples=3, temperature=1.5, top_k=3, top_p=0.8)
    same({"method": "sample"} | chance, sample(*wide, **penalised, **chance))
