"""Attention by hand: section 3.2 of *Attention Is All You Need*."""

import math

import numpy as np
import pytest
import tensorflow as tf

from t2t.layers.attention import MultiHeadAttention, attention_weights
from t2t.layers.cache import KeysValues
from t2t.layers.masks import CAUSAL, EVERYTHING, Span, keys_keep, padding_keep, score_bias, span_keep
from t2t.layers.projection import HeadProjection
from t2t.registry import MODELS
from tests.builders import numpy, randomise, tokens_spec
from tests.small_models import small_hparams

ALL_KEPT = np.ones((1, 1, 1, 1), bool)


def one_head(*vectors):
    """(1, 1, length, channels)."""
    return np.array(vectors, np.float32)[None, None]


def attention(width=4, heads=2, keys=4, values=4, dropout=0.0, bias=False, **kwargs):
    layer = MultiHeadAttention(width, heads, keys, values, dropout, bias, name="attention", **kwargs)
    layer.build((None, None, width))
    return layer


# === Masks ===


def test_masks_by_hand():
    np.testing.assert_array_equal(padding_keep(np.array([[5, 1, 0], [1, 0, 0]])), [[1, 1, 0], [1, 0, 0]])
    assert keys_keep(np.array([[True, False], [True, True]])).shape == (2, 1, 1, 2)  # for every head and query
    np.testing.assert_array_equal(score_bias(np.array([True, False])), [0.0, -1e9])


def test_a_query_sees_itself_and_what_came_before():
    np.testing.assert_array_equal(span_keep(np.arange(3), np.arange(3), CAUSAL), [[1, 0, 0], [1, 1, 0], [1, 1, 1]])


def test_spans_are_told_by_position_on_both_sides():
    queries, keys = np.array([4, 5]), np.array([2, 3, 4, 5, 6, 7])
    window = Span(before=1, after=2)
    np.testing.assert_array_equal(span_keep(queries, keys, window), [[0, 1, 1, 1, 1, 0], [0, 0, 1, 1, 1, 1]])
    np.testing.assert_array_equal(span_keep(queries, keys, Span(before=1)), [[0, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1]])
    assert span_keep(queries, keys, EVERYTHING) is None


def test_a_span_of_each_position_alone_is_cached_in_a_decoder_and_not_in_an_encoder():
    assert attention(span=Span(0, 0)).is_cached
    assert not attention(span=Span(0, 0), is_cached=False).is_cached
    assert not attention(span=Span(1, 1)).is_cached


@pytest.mark.parametrize("name", ["transformer", "evolved_transformer", "transformer_cmlm"])
def test_encoders_cache_nothing_with_any_window(name):
    model_class = MODELS.get(name)
    model = model_class(small_hparams(model_class, {"self_attention_window": 1}), tokens_spec())
    cached = {path.split("/")[1] for path in model.init_cache(None, 2, None, 1).keys_values}
    assert cached == (set() if model.mask_predicts else {"decoder"})


# === Weights ===


def test_weights_by_hand():
    """Scores are q . k / sqrt(2). With q = (sqrt 2, 0) and keys that begin with 0 and ln 3, softmax is 1/4, 3/4."""
    weights = attention_weights(one_head([math.sqrt(2), 0.0]), one_head([0.0, 9.0], [math.log(3), -9.0]), ALL_KEPT)
    np.testing.assert_allclose(numpy(weights)[0, 0], [[0.25, 0.75]], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_what_is_masked_has_no_weight_and_the_rest_share_all(dtype):
    """Weights are float32 in half precision, and masking does not overflow."""
    query, keys = (tf.constant(one_head(*vectors), dtype) for vectors in ([[3.0]], ([1.0], [1.0], [50.0])))
    weights = attention_weights(query, keys, np.array([True, True, False])[None, None, None])
    assert weights.dtype == tf.float32
    np.testing.assert_allclose(numpy(weights)[0, 0], [[0.5, 0.5, 0.0]])
    assert np.isfinite(attention_weights(query, keys, np.zeros((1, 1, 1, 3), bool))).all()  # nothing to see


# === The layer ===


@pytest.mark.parametrize("use_bias", [False, True])
def test_heads_are_neighbouring_channels_projected_together_or_one_by_one(use_bias):
    layer = HeadProjection({"query": (2, 2), "key": (2, 2), "value": (2, 3)}, use_bias)
    layer.build((None, None, 5))
    randomise(layer)
    x = np.random.default_rng(0).normal(size=(2, 3, 5)).astype(np.float32)
    together = layer(x, names=("query", "key", "value"))
    for name, found in zip(("query", "key", "value"), together, strict=True):
        (alone,) = layer(x, names=(name,))
        plain = x @ np.asarray(layer.kernels[name]) + (np.asarray(layer.biases[name]) if use_bias else 0.0)
        for heads in (found, alone):
            np.testing.assert_allclose(np.concatenate([heads[:, 0], heads[:, 1]], -1), plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("use_bias", "count"), [(False, 4), (True, 8)])
def test_biases_are_four_or_none(use_bias, count):
    layer = attention(bias=use_bias)
    assert len(layer.weights) == count
    for variable in layer.weights:
        assert ("bias" in variable.path) == (not np.asarray(variable).any())


def test_kernels_begin_as_glorot_has_it_each_for_itself():
    """Uniform up to sqrt(6 / (in + out)), variance 2 / (in + out); a joint matrix would have a smaller variance."""
    layer = attention(width=256, heads=4, keys=256, values=128)
    expected = {"query": 512, "key": 512, "value": 384}
    for name, fan in expected.items():
        kernel = np.asarray(layer.project.kernels[name])
        assert abs(kernel).max() <= math.sqrt(6 / fan)
        assert abs(kernel).max() > 0.99 * math.sqrt(6 / fan)
        np.testing.assert_allclose(kernel.var(), 2 / fan, rtol=0.03)
    np.testing.assert_allclose(np.asarray(layer.output_layer.kernel).var(), 2 / 384, rtol=0.03)


def test_self_attention_is_queries_keys_and_values_of_one_sequence():
    layer = randomise(attention(keys=6, values=8, bias=True))
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    keep = keys_keep(np.array([[True, True, False], [True, False, True]]))
    memory = layer.keys_values(x)
    assert (memory.keys.shape, memory.values.shape) == ((2, 2, 3, 3), (2, 2, 3, 4))
    np.testing.assert_allclose(layer(x, keep=keep), layer(x, memory=memory, keep=keep), rtol=1e-4, atol=1e-5)


def test_dropout_is_on_the_weights_and_only_under_a_seed():
    """All values are 1 and W^O is the identity: outputs are sums of weights, which are 1 except for dropout."""
    layer = attention(dropout=0.5)
    x = np.random.default_rng(0).normal(size=(1, 6, 4)).astype(np.float32)
    ones = KeysValues(layer.keys_values(x).keys, np.ones((1, 2, 6, 2), np.float32))
    layer.output_layer.kernel.assign(np.eye(4))
    np.testing.assert_allclose(layer(x, memory=ones, keep=ALL_KEPT), np.ones((1, 6, 4)), rtol=1e-5)
    seeded = numpy(layer(x, memory=ones, keep=ALL_KEPT, seed=tf.constant([1, 2], tf.int64)))
    assert np.abs(seeded - 1.0).max() > 0.1


def test_neighbouring_heads_share_keys_and_values():
    """4 query heads with 2 key and value heads equal 4 heads of each with pairwise equal key and value heads."""
    shared, plain = (attention(width=8, heads=4, keys=8, values=8, bias=True, num_kv_heads=n) for n in (2, 0))
    randomise(shared)
    copied = {}
    for variable in shared.variables:
        value, path = np.asarray(variable), variable.path.partition("/")[2]
        if "key_" in path or "value_" in path:
            assert value.shape[-1] == 4
            value = np.repeat(value.reshape(*value.shape[:-1], 2, 2), 2, axis=-2).reshape(*value.shape[:-1], 8)
        copied[path] = value
    for variable in plain.variables:
        variable.assign(copied[variable.path.partition("/")[2]])
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype(np.float32)
    np.testing.assert_allclose(shared(x), plain(x), rtol=1e-4, atol=1e-5)
