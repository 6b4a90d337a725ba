"""Attention over windows against the formula over whole matrices with the window's mask, gradients too.

Legend: B batch, H heads, T positions, K key channels and U value channels of a head.
"""

import numpy as np
import pytest
import tensorflow as tf

from t2t.layers.attention import MultiHeadAttention, attention_weights
from t2t.layers.attention_record import recorded_attention
from t2t.layers.local_attention import local_attention
from t2t.layers.masks import BlockWindow, Grid, Span, keys_keep, span_keep
from tests.builders import largest_within, numpy, randomise
from tests.models import dropout_seed

B, H, K, U = 2, 3, 4, 5
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


def example(length, seed=0):
    random = np.random.default_rng(seed)
    shapes = (B, H, length, K), (B, H, length, K), (B, H, length, U)
    q, k, v = (tf.constant(random.normal(size=shape).astype(np.float32)) for shape in shapes)
    return q, k, v, tf.constant(random.normal(size=(B, H, length, U)).astype(np.float32))


def seen_by_hand(length, window):
    """(T, T) bool by loops over pairs of positions."""
    seen = np.zeros((length, length), bool)
    for t in range(length):
        for s in range(length):
            if isinstance(window, Span):
                seen[t, s] = t - window.before <= s <= t + window.after
                continue
            columns, rows, block_columns, above, _, beside = window.grid
            (y, x), (row, column) = divmod(t, columns), divmod(s, columns)
            top, left = y - y % rows, x - x % block_columns
            inside = top - above <= row < top + rows and left - beside <= column < left + block_columns + beside
            seen[t, s] = inside and s <= t
    return seen


def outcome(attend, q, k, v, wanted):
    with tf.GradientTape() as tape:
        tape.watch([q, k, v])
        out = attend(q, k, v)
        loss = tf.reduce_sum(out * wanted)
    return out, *tape.gradient(loss, [q, k, v])


def local(window, keep=None):
    return lambda q, k, v: local_attention(q, k, v, keep, window, lambda weights: weights)


def whole(seen):
    return lambda q, k, v: tf.matmul(attention_weights(q, k, seen), v)


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_which_keys_a_query_sees(window):
    np.testing.assert_array_equal(span_keep(np.arange(30), np.arange(30), window), seen_by_hand(30, window))


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("length", [1, 6, 12, 29])
def test_it_is_that_of_whole_matrices(length, window):
    *qkv, wanted = example(length)
    expected = outcome(whole(seen_by_hand(length, window)), *qkv, wanted)
    for ours, theirs in zip(outcome(local(window), *qkv, wanted), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_padding_is_not_seen(window):
    q, k, v, _ = example(20)
    keep = keys_keep(tf.constant(np.arange(20)[None] < np.array([20, 11])[:, None]))
    expected = whole(np.logical_and(keep, seen_by_hand(20, window)))(q, k, v)
    found = local(window, keep)(q, k, v)
    assert np.isfinite(found).all()  # queries far in the padding see nothing
    np.testing.assert_allclose(found[0], expected[0], rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(found[1, :, :11], expected[1, :, :11], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_lengths_need_not_be_known_beforehand(window):
    *qkv, wanted = example(19)
    signature = [tf.TensorSpec((None, H, None, x.shape[-1])) for x in (*qkv, wanted)]
    traced = tf.function(lambda *given: outcome(local(window), *given), signature, autograph=False)
    for ours, theirs in zip(traced(*qkv, wanted), outcome(local(window), *qkv, wanted), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("kv_heads", [0, 1])
@pytest.mark.parametrize("window", [Span(3, 0), WINDOWS["blocks of rows and columns"]], ids=["sequence", "image"])
def test_a_layer_computes_windows_of_long_inputs_and_the_same_by_whole_matrices(window, kv_heads):
    """While attention weights are recorded it computes whole matrices."""
    layer = MultiHeadAttention(8, 2, 8, 8, 0.0, False, span=window, num_kv_heads=kv_heads, name="self_attention")
    layer.build((None, None, 8))
    randomise(layer)
    x = tf.constant(np.random.default_rng(0).normal(size=(2, 40, 8)).astype(np.float32))
    with recorded_attention() as record:
        expected = layer(x)
    ((weights,),) = record.values()
    assert weights.shape == (2, 2, 40, 40)
    np.testing.assert_allclose(numpy(layer(x)), numpy(expected), rtol=1e-4, atol=1e-5)


def test_memory_grows_with_the_length_and_not_with_its_square():
    layer = MultiHeadAttention(8, 2, 8, 8, 0.0, False, span=Span(16, 0), name="self_attention")
    layer.build((None, None, 8))
    largest = {}
    for length in (1024, 4096):
        graph = tf.function(layer).get_concrete_function(tf.TensorSpec((1, length, 8))).graph
        largest[length] = largest_within(graph)
    assert largest[4096] == 4 * largest[1024] == 4096 * 2 * 32


def test_weights_are_dropped_by_a_function_of_the_seed():
    q, k, v, _ = example(24)
    plain = local(Span(5, 0))(q, k, v)
    np.testing.assert_allclose(local_attention(q, k, v, None, Span(5, 0), lambda weights: 0.5 * weights), 0.5 * plain)
    layer = MultiHeadAttention(8, 2, 8, 8, 0.25, False, span=Span(5, 0), name="self_attention")
    layer.build((None, None, 8))
    x = tf.constant(np.random.default_rng(0).normal(size=(2, 40, 8)).astype(np.float32))
    one, again, other = (numpy(layer(x, seed=dropout_seed(number))) for number in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert not np.allclose(one, other)
    assert not np.allclose(one, layer(x))
