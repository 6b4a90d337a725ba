"""Attention by blocks against the formula over whole matrices, gradients too.

Legend: B batch, H heads, T queries, S keys, K key channels and U value channels of a head.
"""

import numpy as np
import pytest
import tensorflow as tf

from t2t.layers import blockwise_attention as module
from t2t.layers.attention import MultiHeadAttention, attention_weights
from t2t.layers.blockwise_attention import WeightDropout, blockwise_attention
from t2t.layers.masks import CAUSAL, EVERYTHING, Span, keys_keep, span_keep

B, H, K, U = 2, 3, 4, 5
SPANS = {"all": EVERYTHING, "causal": CAUSAL, "window": Span(before=3, after=2), "causal window": Span(5, 0)}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 8)


def example(queries, keys, seed=0):
    random = np.random.default_rng(seed)
    shapes = (B, H, queries, K), (B, H, keys, K), (B, H, keys, U)
    q, k, v = (tf.constant(random.normal(size=shape).astype(np.float32)) for shape in shapes)
    return q, k, v, tf.constant(random.normal(size=(B, H, queries, U)).astype(np.float32))


def lengths_keep(keys, *lengths):
    return keys_keep(tf.constant(np.arange(keys)[None] < np.array(lengths)[:, None]))


def whole(q, k, v, keep, span):
    seen = span_keep(np.arange(q.shape[2]), np.arange(k.shape[2]), span)
    both = keep if seen is None else seen if keep is None else tf.logical_and(keep, seen)
    return tf.matmul(tf.cast(attention_weights(q, k, both), v.dtype), v)


def outcome(attend, q, k, v, wanted):
    with tf.GradientTape() as tape:
        tape.watch([q, k, v])
        out = attend(q, k, v)
        loss = tf.reduce_sum(out * wanted)
    return out, *tape.gradient(loss, [q, k, v])


def assert_same(ours, theirs, tolerance=2e-5):
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("span", SPANS.values(), ids=SPANS)
@pytest.mark.parametrize("length", [1, 8, 9, 30])
def test_self_attention_is_that_of_whole_matrices(length, span):
    *qkv, wanted = example(length, length)
    keep = lengths_keep(length, length, max(1, length - 3))
    ours = outcome(lambda q, k, v: blockwise_attention(q, k, v, keep, span), *qkv, wanted)
    theirs = outcome(lambda q, k, v: whole(q, k, v, keep, span), *qkv, wanted)
    rows = np.ones((B, 1, length, 1), bool)
    if span.before is not None:  # queries far in the padding attend to nothing and get an arbitrary mean
        rows[1, 0, length - 3 + span.before :] = False
        assert np.isfinite(ours[0]).all()
        theirs, ours = ([np.where(rows, one[0], 0.0)] for one in (theirs, ours))
    assert_same(ours, theirs)


@pytest.mark.parametrize(("queries", "keys"), [(1, 20), (20, 1), (13, 27), (27, 13)])
def test_attention_to_another_sequence(queries, keys):
    *qkv, wanted = example(queries, keys)
    keep = lengths_keep(keys, keys, (keys + 1) // 2)
    ours = outcome(lambda q, k, v: blockwise_attention(q, k, v, keep, EVERYTHING), *qkv, wanted)
    assert_same(ours, outcome(lambda q, k, v: whole(q, k, v, keep, EVERYTHING), *qkv, wanted))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_gradients_in_16_bits_are_as_exact_as_those_of_whole_matrices(dtype):
    """Of keys and values with a large part in common, which cancels in the gradient of a query."""
    exact = [tf.cast(tf.cast(x + 4.0 * (at in (1, 2)), dtype), tf.float64) for at, x in enumerate(example(60, 60))]
    *qkv, wanted = (tf.cast(x, dtype) for x in exact)
    formula = outcome(lambda q, k, v: tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / K**0.5), v), *exact)
    blocks = outcome(lambda q, k, v: blockwise_attention(q, k, v, None, EVERYTHING), *qkv, wanted)
    matrices = outcome(lambda q, k, v: whole(q, k, v, None, EVERYTHING), *qkv, wanted)
    for expected, one, other in zip(formula, blocks, matrices, strict=True):
        ours, theirs = (np.linalg.norm(tf.cast(x, tf.float64) - expected) for x in (one, other))
        assert ours < 2 * theirs + 1e-3 * np.linalg.norm(expected)


def test_without_a_mask_every_key_is_seen():
    *qkv, wanted = example(10, 10)
    ours = outcome(lambda q, k, v: blockwise_attention(q, k, v, None, EVERYTHING), *qkv, wanted)
    assert_same(ours, outcome(lambda q, k, v: whole(q, k, v, None, EVERYTHING), *qkv, wanted))


def test_scores_of_any_size_neither_overflow_nor_vanish():
    q, k, v, wanted = example(20, 20)
    ours = outcome(lambda q, k, v: blockwise_attention(q, k, v, None, CAUSAL), 300 * q, k, v, wanted)
    assert_same(ours, outcome(lambda q, k, v: whole(q, k, v, None, CAUSAL), 300 * q, k, v, wanted), 1e-3)


def test_shapes_need_not_be_known_beforehand():
    *qkv, wanted = example(19, 19)
    signature = [tf.TensorSpec((None, H, None, x.shape[-1])) for x in (*qkv, wanted)]

    @tf.function(input_signature=signature, autograph=False)
    def traced(q, k, v, wanted):
        return outcome(lambda q, k, v: blockwise_attention(q, k, v, None, CAUSAL), q, k, v, wanted)

    assert_same(traced(*qkv, wanted), outcome(lambda q, k, v: whole(q, k, v, None, CAUSAL), *qkv, wanted))


def test_dropout_keeps_the_mean_and_its_gradient_is_that_of_what_was_kept():
    q, k, v, wanted = example(20, 20)
    dropout = WeightDropout(0.25, tf.constant([3, 4], tf.int64))
    ours = outcome(lambda q, k, v: blockwise_attention(q, k, v, None, CAUSAL, dropout), q, k, v, wanted)
    # With the identity as values, the outputs are the attention weights, which show the mask.
    eye = tf.broadcast_to(tf.eye(20), (B, H, 20, 20))
    weights = attention_weights(q, k, span_keep(np.arange(20), np.arange(20), CAUSAL))
    mask = blockwise_attention(q, k, eye, None, CAUSAL, dropout) / tf.maximum(weights, 1e-20)
    seen = np.broadcast_to(np.tri(20, dtype=bool), mask.shape)
    kept = np.asarray(mask)[seen]
    assert set(np.unique(kept.round(3))) == {0.0, np.float32(1.333)}
    assert 0.2 < (kept == 0).mean() < 0.3
    mask = tf.constant(np.where(seen, mask, 0.0).round(3) / 1.333 * (4 / 3), tf.float32)

    def masked(q, k, v):
        return tf.matmul(attention_weights(q, k, span_keep(np.arange(20), np.arange(20), CAUSAL)) * mask, v)

    assert_same(ours, outcome(masked, q, k, v, wanted), 1e-4)


@pytest.mark.parametrize("kv_heads", [0, 1])
def test_a_layer_computes_long_sequences_by_blocks_and_short_ones_whole(kv_heads, monkeypatch):
    layer = MultiHeadAttention(8, 2, 8, 8, 0.0, False, longest=40, span=CAUSAL, num_kv_heads=kv_heads)
    layer.build((None, None, 8))
    x = tf.constant(np.random.default_rng(0).normal(size=(2, 40, 8)).astype(np.float32))
    keep = lengths_keep(40, 40, 30)
    expected = layer(x, keep=keep)
    monkeypatch.setattr("t2t.layers.attention.BLOCKWISE_FROM", 40 * 40)
    called = []
    monkeypatch.setattr(
        "t2t.layers.attention.blockwise_attention", lambda *a: called.append(1) or blockwise_attention(*a)
    )
    np.testing.assert_allclose(layer(x, keep=keep), expected, rtol=1e-4, atol=1e-5)
    assert called == [1]
    layer(x[:, :39], keep=keep[..., :39])
    assert called == [1]
    traced = tf.function(
        lambda x, keep: layer(x, keep=keep),
        input_signature=[tf.TensorSpec((None, None, 8)), tf.TensorSpec((None, 1, 1, None), tf.bool)],
        autograph=False,
    )
    for length in (39, 40):
        found = traced(x[:, :length], keep[..., :length])
        np.testing.assert_allclose(found, expected[:, :length], rtol=1e-4, atol=1e-5)


def test_no_operation_puts_out_more_scores_than_those_of_two_blocks():
    length, width = 1600, 2
    signature = [tf.TensorSpec((1, 1, length, width))] * 4

    def gradient(q, k, v, wanted):
        return outcome(lambda q, k, v: blockwise_attention(q, k, v, None, CAUSAL), q, k, v, wanted)

    graph = tf.function(gradient, autograph=False).get_concrete_function(*signature).graph
    graphs = [graph, *(graph._get_function(f.signature.name).graph for f in graph.as_graph_def().library.function)]
    sizes = [t.shape.num_elements() or 0 for g in graphs for op in g.get_operations() for t in op.outputs]
    assert max(sizes) == length * width
