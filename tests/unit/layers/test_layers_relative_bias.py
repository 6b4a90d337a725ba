"""Relative position biases by hand: Raffel et al. 2020, section 2.1.

Legend: T queries, S keys.
"""

import numpy as np
import pytest
import tensorflow as tf

from t2t.layers.masks import key_offsets
from t2t.layers.relative_bias import RelativeBias, buckets_of_offsets
from tests.builders import numpy


def bucket_of(causal):
    """Bucket by distance, key minus query, with the paper's 32 buckets and distances up to 128."""
    return dict(zip(range(-128, 129), buckets_of_offsets(32, 128, causal).tolist(), strict=True))


def test_buckets_of_both_directions_by_hand():
    """8 distances to a side have a bucket each, then 8 ranges, each of which ends at sqrt(2) times the one before."""
    bucket = bucket_of(causal=False)
    starts = [8, 12, 16, 23, 32, 46, 64, 91]  # 8 * 2^(i/2), rounded up
    for distance in range(129):
        expected = distance if distance < 8 else 7 + sum(distance >= start for start in starts)
        assert bucket[-distance] == expected
        assert bucket[distance] == (16 + expected if distance else 0)


def test_causal_buckets_are_all_for_keys_before():
    """16 distances have a bucket each, then 16 ranges, each of which ends at 8^(1/16) times the one before."""
    bucket = bucket_of(causal=True)
    assert [bucket[-distance] for distance in range(16)] == list(range(16))
    assert {bucket[distance] for distance in range(1, 129)} == {0}  # causal attention never uses these
    assert [bucket[-distance] for distance in (16, 18, 19, 32, 33, 64, 112, 113, 128)] == [
        16, 16, 17, 21, 21, 26, 30, 31, 31,
    ]  # fmt: skip
    assert sorted(set(bucket.values())) == list(range(32))


def numbered():
    """Two heads, four buckets to a side, a distance of 3 and more in the last; bias 10 * head + bucket."""
    layer = RelativeBias(2, 8, 3, causal=False)
    layer.build()
    layer.table.assign(np.arange(8.0)[:, None] + [0.0, 10.0])
    return layer


def test_scores_by_hand():
    """Queries at positions 0 and 5; keys before the query have buckets 0 to 3, keys after it 4 to 7."""
    found = numpy(numbered()(key_offsets(np.array([0, 5]), np.array([0, 1, 2, 5, 9]))))
    expected = np.array([[0, 5, 6, 7, 7], [3, 3, 3, 0, 7]])
    np.testing.assert_array_equal(found, [[expected, 10 + expected]])


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_biases_are_float32_in_every_precision(policy):
    layer = RelativeBias(1, 8, 3, causal=True, dtype=policy)
    layer.build()
    layer.table.assign(np.full((8, 1), 1.0 + 2.0**-20))
    found = layer(np.array([[0]]))
    assert found.dtype == tf.float32
    assert float(found[0, 0, 0, 0]) == 1.0 + 2.0**-20


def test_biases_are_looked_up_exactly_and_their_gradients_are_sums_over_pairs():
    """The lookup multiplies nothing, so that TensorFloat-32 rounds no bias; the gradient is one product."""
    layer, offset_PS = RelativeBias(3, 8, 3, causal=False), key_offsets(np.arange(5), np.arange(7))
    layer.build()
    looked_up = tf.function(layer, autograph=False).get_concrete_function(tf.TensorSpec((None, None), tf.int32))
    assert "MatMul" not in str(looked_up.graph.as_graph_def())
    wanted = np.random.default_rng(0).normal(size=(1, 3, 5, 7)).astype(np.float32)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(offset_PS) * wanted)
    expected = np.zeros((8, 3))
    buckets = dict(zip(range(-3, 4), layer.bucket_of_offset.tolist(), strict=True))
    for (t, s), offset in np.ndenumerate(np.clip(offset_PS, -3, 3)):
        expected[buckets[offset]] += wanted[0, :, t, s]
    np.testing.assert_allclose(numpy(tape.gradient(loss, layer.table.value)), expected, rtol=1e-5, atol=1e-6)
