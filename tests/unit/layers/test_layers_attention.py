"""Attention by hand (section 3.2 of *Attention Is All You Need*), its masks, caches and products.

Legend: G groups, K beams, L positions, H heads, C channels.
"""

import math

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from t2t.layers.attention import MultiHeadAttention, attention_weights
from t2t.layers.cache import CachingLayer, FixedCache, GrowingCache, KeysValues, StepCache, empty_cache, reorder_entries
from t2t.layers.masks import (
    CAUSAL,
    EVERYTHING,
    Span,
    float32_product,
    keys_keep,
    padding_keep,
    score_bias,
    span_keep,
    words_keep,
)
from t2t.registry import MODELS
from tests.builders import numpy, tokens_spec
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


def test_dropout_is_on_the_weights_and_only_under_a_seed():
    """All values are 1 and W^O is the identity: outputs are sums of weights, which are 1 except for dropout."""
    layer = attention(dropout=0.5)
    x = np.random.default_rng(0).normal(size=(1, 6, 4)).astype(np.float32)
    ones = KeysValues(layer.keys_values(x).keys, np.ones((1, 2, 6, 2), np.float32))
    layer.output_layer.kernel.assign(np.eye(4))
    np.testing.assert_allclose(layer(x, memory=ones, keep=ALL_KEPT), np.ones((1, 6, 4)), rtol=1e-5)
    seeded = numpy(layer(x, memory=ones, keep=ALL_KEPT, seed=tf.constant([1, 2], tf.int64)))
    assert np.abs(seeded - 1.0).max() > 0.1


# === Words of inputs ===
@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        ([5, 6, 1, 0, 0], [1, 1, 0, 0, 0]),
        ([5, 6, 7], [1, 1, 1]),
        ([1, 0, 0], [1, 0, 0]),  # an empty one
        ([5, 1, 6, 7, 1, 1, 8, 1, 0], [1, 0, 1, 1, 0, 1, 1, 0, 0]),  # several in a row, the third of them empty
    ],
)
def test_words_are_kept_and_ends_of_empty_sequences(ids, kept):
    found = ops.convert_to_numpy(words_keep(ops.convert_to_tensor(np.array([ids], np.int32))))
    assert found.tolist() == [[bool(keep) for keep in kept]]


# === Attention through ancestors, compared with caches that are copied whenever beams are reordered ===

G, K, L, H, C = 3, 4, 6, 2, (5, 7)


def softmax(scores):
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def copied_and_attended(rng):
    """Yields for each position: new keys and values, queries, the chosen beams, and the attention outputs.

    Each beam has a separate list of its past keys and values, which is copied when beams are reordered.
    """
    histories = [[([], []) for _ in range(K)] for _ in range(G)]
    for _ in range(L):
        keys, queries = rng.normal(size=(2, G, H, K, C[0])).astype("float32")
        values = rng.normal(size=(G, H, K, C[1])).astype("float32")
        found = np.zeros((G, H, K, C[1]), "float32")
        for g in range(G):
            for k, (past_keys, past_values) in enumerate(histories[g]):
                past_keys.append(keys[g, :, k])
                past_values.append(values[g, :, k])
                scores_HL = np.einsum("hc,lhc->hl", queries[g, :, k], past_keys) / np.sqrt(C[0])
                found[g, :, k] = np.einsum("hl,lhc->hc", softmax(scores_HL), past_values)
        beams = rng.integers(0, K, (G, K)).astype("int32")
        histories = [[tuple(map(list, history[k])) for k in beams[g]] for g, history in enumerate(histories)]
        yield KeysValues(keys, values), queries, beams, found


class Entry(CachingLayer):
    """A layer with a self-attention entry in the cache."""

    def empty_entry(self, rows, beams, length):
        shape = (rows // beams, H, length * beams)
        return KeysValues(*(np.zeros((*shape, channels), np.float32) for channels in C))


@pytest.mark.parametrize(("length", "kind"), [(None, GrowingCache), (L + 2, FixedCache)], ids=["growing", "fixed"])
def test_attention_through_ancestors_is_attention_over_copies(length, kind):
    layer = Entry()
    cache = empty_cache([layer], G * K, length, beams=K)
    assert type(cache) is kind
    for position, (new, queries, beams, expected) in enumerate(copied_and_attended(np.random.default_rng(1))):
        step = StepCache(cache, position, {})
        written = step.extend_keys_values(layer.path, new)
        weights = np.asarray(attention_weights(queries, written.keys, step.keep()))
        np.testing.assert_allclose(weights @ np.asarray(written.values), expected, rtol=1e-4, atol=1e-5)
        cache = reorder_entries(step.result(), beams)
    assert np.asarray(cache.ancestors).shape == (G, K, length or L)
    if length:
        keys = np.asarray(cache.keys_values[layer.path].keys)
        assert not keys[:, :, L * K :].any(), "positions that have not come yet are empty"


def test_one_beam_needs_a_mask_only_where_entries_are_unwritten_or_out_of_reach():
    layer = Entry()
    growing, fixed = (empty_cache([layer], 2, length, beams=1) for length in (None, 3))
    new = KeysValues(*(np.ones((2, H, 1, channels), np.float32) for channels in C))
    for position in range(3):
        steps = [StepCache(cache, position, {}) for cache in (growing, fixed)]
        for step in steps:
            step.extend_keys_values(layer.path, new)
        assert steps[0].keep() is None
        written = [[number <= position for number in range(3)]] * 2
        np.testing.assert_array_equal(np.asarray(steps[1].keep())[:, 0, 0], written)
        reached = [[position - 1 <= number for number in range(position + 1)]] * 2
        np.testing.assert_array_equal(np.asarray(steps[0].keep(Span(before=1, after=0)))[:, 0, 0], reached)
        growing, fixed = (step.result() for step in steps)


# === Products with float32 results, against numpy's of the same operands ===

HALVES = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}


def operands(dtype, *shapes):
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


def exact(x, y):
    return x.astype(np.float64) @ np.swapaxes(y.astype(np.float64), -1, -2)


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_is_multiplied_without_rounding_the_result(dtype):
    x, y = operands(HALVES[dtype], (2, 3, 7, 40), (2, 3, 5, 40))
    found = float32_product(tf.constant(x), tf.constant(y))
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, exact(x, y), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", HALVES)
def test_gradients_are_of_the_operands_types(dtype):
    x, y, up = operands(HALVES[dtype], (2, 7, 40), (2, 5, 40), (2, 7, 5))
    x, y = tf.constant(x), tf.constant(y)
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        total = tf.reduce_sum(float32_product(x, y) * up.astype(np.float32))
    gradients = tape.gradient(total, [x, y])
    assert [g.dtype for g in gradients] == [x.dtype, y.dtype]
    transposed = np.swapaxes(up, 1, 2)
    wanted = exact(up, np.swapaxes(y.numpy(), 1, 2)), exact(transposed, np.swapaxes(x.numpy(), 1, 2))
    for one, other in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(one.numpy().astype(np.float64), other, rtol=0.01, atol=0.05)


def test_float32_is_the_plain_product_and_so_is_its_gradient():
    x, y = map(tf.constant, operands(np.float32, (4, 6), (3, 6)))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, y])
        found, plain = float32_product(x, y), tf.matmul(x, y, transpose_b=True)
    np.testing.assert_allclose(found, plain, rtol=1e-6)
    for one, other in zip(tape.gradient(found, [x, y]), tape.gradient(plain, [x, y]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("dtype", HALVES)
def test_attention_weights_are_those_of_exact_scores(dtype):
    """Scores of some 30: rounded to bfloat16, weights would be off by percents."""
    q, k = operands(HALVES[dtype], (1, 1, 6, 64), (1, 1, 9, 64))
    q, k = q * HALVES[dtype](4), k * HALVES[dtype](4)
    scores = exact(q, k) / 8
    wanted = np.exp(scores - scores.max(-1, keepdims=True))
    found = attention_weights(tf.constant(q), tf.constant(k), None)
    np.testing.assert_allclose(found, wanted / wanted.sum(-1, keepdims=True), rtol=1e-3, atol=1e-6)
