"""Relative positions by hand: Shaw et al. 2018, section 3.2.

Legend: T queries, S keys.
"""

import numpy as np
import pytest
import tensorflow as tf

from t2t.layers.masks import key_offsets
from t2t.layers.relative_positions import RelativePositions
from tests.builders import numpy


def numbered(most=1):
    """One channel; the key vector of distance d is d, the value vector 10 d."""
    layer = RelativePositions(most, 1, 1)
    layer.build()
    distances = np.arange(-most, most + 1.0)[:, None]
    layer.keys.assign(distances)
    layer.values.assign(10.0 * distances)
    return layer


def test_scores_by_hand():
    """Queries 2 and 3 at positions 0 and 5: keys before count as 1 behind, keys after as 1 ahead."""
    offset_TS = key_offsets(np.array([0, 5]), np.array([0, 2, 5, 9]))
    scores = numbered().scores(np.array([[[[2.0], [3.0]]]], np.float32), offset_TS)
    np.testing.assert_array_equal(numpy(scores)[0, 0], [[0, 2, 2, 2], [-3, -3, 0, 3]])


def test_scores_are_scaled_by_the_root_of_the_channels():
    layer = RelativePositions(1, 4, 1)
    layer.build()
    layer.keys.assign(np.ones((3, 4)))
    np.testing.assert_allclose(layer.scores(np.ones((1, 1, 1, 4), np.float32), np.array([[0]])), [[[[2.0]]]])


def test_weighted_values_by_hand():
    offset_TS = key_offsets(np.array([1, 2]), np.array([0, 1, 2]))
    weights = np.array([[[[0.5, 0.25, 0.25], [0.5, 0.5, 0.0]]]], np.float32)
    np.testing.assert_allclose(numpy(numbered().weighted(weights, offset_TS))[0, 0], [[-2.5], [-10.0]])


def test_queries_of_one_position_share_their_distances():
    """As the beams of a step do: one row of distances is for all."""
    layer, random = numbered(3), np.random.default_rng(0)
    queries = random.normal(size=(2, 3, 4, 1)).astype(np.float32)
    offset_1S = key_offsets(np.array([2]), np.arange(6))
    together = layer.scores(queries, offset_1S)
    np.testing.assert_array_equal(together, layer.scores(queries, np.repeat(offset_1S, 4, axis=0)))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_16_bit_vectors_are_multiplied_exactly(dtype):
    layer = RelativePositions(2, 8, 8)
    layer.build()
    query = tf.cast(np.random.default_rng(0).normal(size=(1, 1, 3, 8)), dtype)
    offset_TS = key_offsets(np.arange(3), np.arange(5))
    found = layer.scores(query, offset_TS)
    assert found.dtype == tf.float32
    scaled = numpy(query * tf.cast(8**-0.5, dtype))[0, 0]
    vectors = numpy(tf.cast(layer.keys.value, dtype))[np.clip(offset_TS, -2, 2) + 2]
    np.testing.assert_allclose(numpy(found)[0, 0], np.einsum("td,tsd->ts", scaled, vectors), rtol=1e-6, atol=1e-7)
