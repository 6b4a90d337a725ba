"""Attention by blocks against the formula over whole matrices, gradients too.

Legend: B batch, H heads, K key channels of a head.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

from t2t.layers.attention import attention_weights
from t2t.layers.blockwise_attention import WeightDropout, blockwise_attention
from t2t.layers.masks import CAUSAL, EVERYTHING, Span, span_keep
from tests.builders import largest_within
from tests.unit.layers.whole_matrices import B, H, K, assert_same, example, layer, lengths_keep, outcome, states, whole

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
    exact = [tf.cast(tf.cast(x + 4.0 * (at in (1, 2)), dtype), tf.float64) for at, x in enumerate(example(60, 60))]
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
