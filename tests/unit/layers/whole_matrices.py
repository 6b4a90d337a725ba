"""Attention over whole matrices with its gradients, which faster ways to compute it are compared with.

Legend: B batch, H heads, T queries, S keys, K key channels and U value channels of a head.
"""

import numpy as np
import tensorflow as tf

from t2t.layers.attention import MultiHeadAttention, attention_weights
from t2t.layers.masks import keys_keep, span_keep
from tests.builders import randomise

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
