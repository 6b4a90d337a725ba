"""Attention over windows against the formula over whole matrices with the window's mask, gradients too.

Legend: B batch, H heads, T positions.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

from t2t.layers.attention_record import recorded_attention
from t2t.layers.local_attention import local_attention
from t2t.layers.masks import BlockWindow, Grid, Span, span_keep
from tests.builders import largest_within, numpy
from tests.models import dropout_seed
from tests.unit.layers.whole_matrices import H, assert_same, example, layer, lengths_keep, outcome, states, whole

COLUMNS = 7
WINDOWS = {
    "both sides": Span(3, 2),
    "before": Span(4, 0),
    "after": Span(0, 3),
    "itself": Span(0, 0),
    "a block and the one before": BlockWindow(Grid(1, 4, 1, 4, 0, 0)),
    "a block and a part of the one before": BlockWindow(Grid(1, 5, 1, 2, 0, 0)),
    "blocks of rows and columns": BlockWindow(Grid(COLUMNS, 2, 3, 1, 0, 2)),
    "blocks of a row": BlockWindow(Grid(COLUMNS, 1, 2, 1, 0, 1)),
}
QUICK = ("both sides", "blocks of rows and columns")
each_window = pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)


def seen_by_hand(length, window):
    """(T, T) bool by loops over pairs of positions."""
    seen = np.zeros((length, length), bool)
    for t, s in np.ndindex(length, length):
        if isinstance(window, Span):
            seen[t, s] = t - window.before <= s <= t + window.after
            continue
        columns, rows, block_columns, above, _, beside = window.grid
        (y, x), (row, column) = divmod(t, columns), divmod(s, columns)
        top, left = y - y % rows, x - x % block_columns
        inside = top - above <= row < top + rows and left - beside <= column < left + block_columns + beside
        seen[t, s] = inside and s <= t
    return seen


def local(window, keep=None):
    return lambda q, k, v: local_attention(q, k, v, keep, window, lambda weights: weights)


@each_window
def test_which_keys_a_query_sees(window):
    np.testing.assert_array_equal(span_keep(np.arange(30), np.arange(30), window), seen_by_hand(30, window))


@each_window
@pytest.mark.parametrize("length", [1, 6, 12, 29])
def test_it_is_that_of_whole_matrices(length, window):
    given = example(length, length)
    assert_same(outcome(local(window), *given), outcome(whole(seen_by_hand(length, window)), *given))


@each_window
def test_padding_is_not_seen(window):
    q, k, v, _ = example(20, 20)
    keep = lengths_keep(20, 20, 11)
    expected = whole(np.logical_and(keep, seen_by_hand(20, window)))(q, k, v)
    found = local(window, keep)(q, k, v)
    assert np.isfinite(found).all()  # queries far in the padding see nothing
    assert_same((found[0], found[1, :, :11]), (expected[0], expected[1, :, :11]))


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in WINDOWS if name not in QUICK)]
)
def test_lengths_need_not_be_known_beforehand(name):
    given, window = example(19, 19), WINDOWS[name]
    signature = [tf.TensorSpec((None, H, None, x.shape[-1])) for x in given]
    traced = tf.function(functools.partial(outcome, local(window)), signature, autograph=False)
    assert_same(traced(*given), outcome(local(window), *given))


@pytest.mark.parametrize("kv_heads", [0, 1])
@pytest.mark.parametrize("window", [Span(3, 0), WINDOWS["blocks of rows and columns"]], ids=["sequence", "image"])
def test_a_layer_computes_windows_of_long_inputs_and_the_same_by_whole_matrices(window, kv_heads):
    """While attention weights are recorded it computes whole matrices."""
    attention, x = layer(span=window, num_kv_heads=kv_heads), states()
    with recorded_attention() as record:
        expected = attention(x)
    ((weights,),) = record.values()
    assert weights.shape == (2, 2, 40, 40)
    np.testing.assert_allclose(numpy(attention(x)), numpy(expected), rtol=1e-4, atol=1e-5)


def test_memory_grows_with_the_length_and_not_with_its_square():
    attention, largest = layer(span=Span(16, 0)), {}
    for length in (1024, 4096):
        graph = tf.function(attention).get_concrete_function(tf.TensorSpec((1, length, 8))).graph
        largest[length] = largest_within(graph)
    assert largest[4096] == 4 * largest[1024] == 4096 * 2 * 32


def test_weights_are_dropped_by_a_function_of_the_seed():
    q, k, v, _ = example(24, 24)
    plain = local(Span(5, 0))(q, k, v)
    np.testing.assert_allclose(local_attention(q, k, v, None, Span(5, 0), lambda weights: 0.5 * weights), 0.5 * plain)
    attention, x = layer(0.25, span=Span(5, 0)), states()
    one, again, other = (numpy(attention(x, seed=dropout_seed(number))) for number in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert not np.allclose(one, other)
    assert not np.allclose(one, attention(x))
