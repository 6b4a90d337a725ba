"""Attention by blocks and over windows against the formula over whole matrices, gradients too.

Legend: B batch, H heads, T queries or positions, S keys, K key channels and U value channels of a head.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

from t2t.layers.attention import MultiHeadAttention, attention_weights
from t2t.layers.long_attention import WeightDropout, blockwise_attention, local_attention
from t2t.layers.masks import CAUSAL, EVERYTHING, BlockWindow, Grid, Span, keys_keep, span_keep
from t2t.layers.mode import in_mode
from tests.builders import largest_within, numpy, randomise
from tests.models import dropout_seed

B, H, K, U = 2, 3, 4, 5


def example(queries, keys):
    """Returns queries, keys, values, and what the outputs are multiplied by in a loss."""
    random = np.random.default_rng(0)
    shapes = (B, H, queries, K), (B, H, keys, K), (B, H, keys, U), (B, H, queries, U)
    return [tf.constant(random.normal(size=shape), tf.float32) for shape in shapes]


def lengths_keep(keys, *lengths):
    return keys_keep(tf.constant(np.arange(keys)[None] < np.array(lengths)[:, None]))


def whole(keep, span=None):
    """Returns attention as a function of queries, keys and values, by the formula; `span` as well as a mask."""

    def attend(q, k, v):
        seen = None if span is None else span_keep(np.arange(q.shape[2]), np.arange(k.shape[2]), span)
        both = keep if seen is None else seen if keep is None else tf.logical_and(keep, seen)
        return tf.matmul(tf.cast(attention_weights(q, k, both), v.dtype), v)

    return attend


def outcome(attend, q, k, v, wanted):
    """Returns outputs and gradients."""
    with tf.GradientTape() as tape:
        tape.watch([q, k, v])
        out = attend(q, k, v)
        loss = tf.reduce_sum(out * wanted)
    return out, *tape.gradient(loss, [q, k, v])


def assert_same(ours, theirs, tolerance=2e-5):
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def layer(dropout=0.0, **settings):
    """Returns a layer of two heads and eight channels."""
    built = MultiHeadAttention(8, 2, 8, 8, dropout, False, name="self_attention", **settings)
    built.build((None, None, 8))
    return randomise(built)


def states(length=40):
    return tf.constant(np.random.default_rng(0).normal(size=(2, length, 8)), tf.float32)


# === By blocks ===

SPANS = {"all": EVERYTHING, "causal": CAUSAL, "window": Span(before=3, after=2), "causal window": Span(5, 0)}


def blocks(keep, span, dropout=None):
    return lambda q, k, v: blockwise_attention(q, k, v, keep, span, dropout, block=8)


@pytest.mark.parametrize("span", SPANS.values(), ids=SPANS)
@pytest.mark.parametrize("length", [1, 8, 9, 30])
def test_self_attention_is_that_of_whole_matrices(length, span):
    *qkv, wanted = example(length, length)
    keep = lengths_keep(length, length, max(1, length - 3))
    ours, theirs = (outcome(attend(keep, span), *qkv, wanted) for attend in (blocks, whole))
    rows = np.ones((B, 1, length, 1), bool)
    if span.before is not None:  # queries far in the padding attend to nothing and get an arbitrary mean
        rows[1, 0, length - 3 + span.before :] = False
        assert np.isfinite(ours[0]).all()
        theirs, ours = ([np.where(rows, one[0], 0.0)] for one in (theirs, ours))
    assert_same(ours, theirs)


@pytest.mark.parametrize(("queries", "keys"), [(1, 20), (20, 1), (13, 27), (27, 13)])
@pytest.mark.parametrize("is_masked", [True, False])
def test_attention_to_another_sequence(queries, keys, is_masked):
    keep, given = lengths_keep(keys, keys, (keys + 1) // 2) if is_masked else None, example(queries, keys)
    assert_same(*(outcome(attend(keep, EVERYTHING), *given) for attend in (blocks, whole)))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_gradients_in_16_bits_are_as_exact_as_those_of_whole_matrices(dtype):
    """Of keys and values with a large part in common, which cancels in the gradient of a query."""
    exact = [tf.cast(tf.cast(x + 4.0 * (at in (1, 2)), dtype), tf.float64) for at, x in enumerate(example(24, 24))]
    formula = outcome(lambda q, k, v: tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / K**0.5), v), *exact)
    found = (outcome(attend(None, EVERYTHING), *(tf.cast(x, dtype) for x in exact)) for attend in (blocks, whole))
    for expected, *pair in zip(formula, *found, strict=True):
        ours, theirs = (np.linalg.norm(tf.cast(x, tf.float64) - expected) for x in pair)
        assert ours < 2 * theirs + 1e-3 * np.linalg.norm(expected)


def test_scores_of_any_size_neither_overflow_nor_vanish():
    q, *others = example(20, 20)
    assert_same(*(outcome(attend(None, CAUSAL), 300 * q, *others) for attend in (blocks, whole)), 1e-3)


def test_shapes_need_not_be_known_beforehand():
    given = example(19, 19)
    signature = [tf.TensorSpec((None, H, None, x.shape[-1])) for x in given]
    traced = tf.function(functools.partial(outcome, blocks(None, CAUSAL)), signature, autograph=False)
    assert_same(traced(*given), outcome(whole(None, CAUSAL), *given))


def test_dropout_keeps_the_mean_and_its_gradient_is_that_of_what_was_kept():
    q, k, v, wanted = example(20, 20)
    attend = blocks(None, CAUSAL, WeightDropout(0.25, tf.constant([3, 4], tf.int64)))
    ours = outcome(attend, q, k, v, wanted)
    # With the identity as values, the outputs are the attention weights, which show the mask.
    eye = tf.broadcast_to(tf.eye(20), (B, H, 20, 20))
    causal = span_keep(np.arange(20), np.arange(20), CAUSAL)
    mask = attend(q, k, eye) / tf.maximum(attention_weights(q, k, causal), 1e-20)
    seen = np.broadcast_to(np.tri(20, dtype=bool), mask.shape)
    kept = np.asarray(mask)[seen]
    assert set(np.unique(kept.round(3))) == {0.0, np.float32(1.333)}
    assert 0.2 < (kept == 0).mean() < 0.3
    mask = tf.constant(np.where(seen, mask, 0.0).round(3) / 1.333 * (4 / 3), tf.float32)
    assert_same(
        ours, outcome(lambda q, k, v: tf.matmul(attention_weights(q, k, causal) * mask, v), q, k, v, wanted), 1e-4
    )


@pytest.mark.parametrize("settings", [{}, {"num_kv_heads": 1}, {"rotary": True}], ids=str)
def test_a_layer_computes_long_sequences_by_blocks_and_short_ones_whole(settings):
    attention, x, keep = layer(longest=40, span=CAUSAL, **settings), states(), lengths_keep(40, 40, 30)
    signature = [tf.TensorSpec((None, None, 8)), tf.TensorSpec((None, 1, 1, None), tf.bool)]
    traced = tf.function(lambda x, keep: attention(x, keep=keep), signature, autograph=False)
    for length in (39, 40):
        given, mask = x[:, :length], keep[..., :length]
        attention.blockwise_from = 0
        expected = attention(given, keep=mask)
        attention.blockwise_from = 40 * 40
        found = attention(given, keep=mask)
        # Blocks are rounded in another way than whole matrices.
        assert np.any(np.asarray(found) != np.asarray(expected)) == (length == 40)
        for one in (found, traced(given, mask)):
            np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-5)


def test_no_operation_puts_out_more_scores_than_those_of_two_blocks():
    length, width = 1600, 2
    attend = functools.partial(outcome, blocks(None, CAUSAL))
    graph = (
        tf.function(attend, autograph=False).get_concrete_function(*[tf.TensorSpec((1, 1, length, width))] * 4).graph
    )
    assert largest_within(graph) == length * width


# === Over windows ===

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
    record = {}
    with in_mode(record=record):
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
