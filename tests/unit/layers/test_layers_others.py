"""Embeddings, positions and dropout, by hand; the Transformer in numpy has the rest, too."""

import math

import numpy as np
import pytest
import tensorflow as tf

from t2t.layers.cache import StepCache, empty_cache
from t2t.layers.dropout import Dropout
from t2t.layers.feed_forward import FeedForward
from t2t.layers.modalities.base import TokenEmbedding, TokenSoftmax
from t2t.layers.positions import LearnedPositions, SinusoidalPositions, build_positions
from t2t.layers.residual import Residual
from t2t.layers.sinusoids import sinusoids
from t2t.specs.features import FeatureKind, FeatureSpec
from tests.builders import numpy
from tests.errors import refused
from tests.reference.transformer import sinusoid

SEED = tf.constant([1, 2], tf.int64)


# === Embeddings ===
def tokens(size):
    return FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=size)


def test_symbol_dropout_zeroes_whole_vectors_of_both_sides_and_scales_none():
    """With 2,000 tokens the fraction has standard deviation 0.01; with a shared table each side drops other tokens."""
    layer = TokenEmbedding(tokens(9), 4, symbol_dropout=0.3)
    layer.build()
    ids_BT, seed = np.full((40, 50), 5), np.array([1, 2], np.int64)
    whole = np.asarray(layer(ids_BT))[0, 0]
    masks = []
    for found in (layer(ids_BT, seed=seed), layer.before(ids_BT, seed=seed)):
        keep_BT = np.asarray(found).any(axis=-1)
        np.testing.assert_allclose(keep_BT.mean(), 0.7, atol=0.05)
        np.testing.assert_array_equal(np.asarray(found)[keep_BT], np.tile(whole, (keep_BT.sum(), 1)))
        masks.append(keep_BT)
    assert 0.5 < (masks[0] == masks[1]).mean() < 0.66  # of independent masks, 0.7^2 + 0.3^2
    for found in (layer(ids_BT), layer.before(ids_BT)):
        assert np.asarray(found).all()


@pytest.mark.parametrize(
    "layer", [TokenEmbedding(tokens(2000), 64), LearnedPositions(2000, 64)], ids=["embedding", "positions"]
)
def test_tables_begin_normal_with_a_variance_of_one_over_the_width(layer):
    layer.build()
    table = np.asarray(layer.table)
    assert table.shape == (2000, 64)
    np.testing.assert_allclose(table.std(), 64**-0.5, rtol=0.02)
    assert abs(table.mean()) < 0.002
    # Of a normal distribution, 31.7 % lie beyond one standard deviation and 0.27 % beyond three.
    np.testing.assert_allclose((np.abs(table) > 64**-0.5).mean(), 0.317, atol=0.01)
    assert (np.abs(table) > 3 * 64**-0.5).mean() > 0.001


# === Positions ===
def test_biases_of_logits():
    top = TokenSoftmax(tokens(5), 4, has_bias=True)
    top.build()
    rng = np.random.default_rng(0)
    table_VD, bias_V = rng.normal(size=(5, 4)).astype(np.float32), rng.normal(size=5).astype(np.float32)
    top.own_table.assign(table_VD)
    top.bias.assign(bias_V)
    hidden_BTD = rng.normal(size=(2, 3, 4)).astype(np.float32)
    expected_BTV = hidden_BTD @ table_VD.T + bias_V
    np.testing.assert_allclose(numpy(top(hidden_BTD)), expected_BTV, atol=1e-6)
    some = top.decode_weights(np.array([4, 1], np.int32))
    np.testing.assert_allclose(numpy(top(hidden_BTD, some)), expected_BTV[..., [4, 1]], atol=1e-6)
    targets_BT = np.array([[1, 2, 3], [4, 1, 2]], np.int32)
    log_probs_BTV = expected_BTV - np.log(np.exp(expected_BTV).sum(-1, keepdims=True))
    chosen_BT = np.take_along_axis(log_probs_BTV, targets_BT[..., None], -1)[..., 0]
    np.testing.assert_allclose(numpy(top.score_targets(hidden_BTD, targets_BT).log_probs), chosen_BT, atol=1e-5)
    weights_BT = np.array([[1, 0, 2], [0.5, -1, 3]], np.float32)
    found = float(top.weighted_nll(hidden_BTD, targets_BT, weights_BT))
    np.testing.assert_allclose(found, -(chosen_BT * weights_BT).sum(), rtol=1e-5)


@pytest.mark.parametrize("layout", ["interleaved", "split"])
def test_sinusoids_by_hand(layout):
    """Width 4: pairs turn by 1 and by 1/100 a position; of width 6 in Tensor2Tensor's layout, which has sines first,
    time scales are 1, 100 and 10000, where the paper has 1, 21.5 and 464."""
    if layout == "interleaved":
        width, count = 4, 3
        expected = [[f(p / s) for s in (1, 100) for f in (math.sin, math.cos)] for p in range(count)]
    else:
        width, count = 6, 8
        expected = [[f(p / s) for f in (math.sin, math.cos) for s in (1, 100, 10000)] for p in range(count)]
    np.testing.assert_allclose(sinusoids(count, width, layout), expected, atol=1e-6)
    zeros = np.zeros((1, count, width), np.float32)
    np.testing.assert_allclose(SinusoidalPositions(width, layout)(zeros)[0], expected, atol=1e-6)
    np.testing.assert_allclose(sinusoids(count - 2, width, layout, first=2), expected[2:], atol=1e-6)
    np.testing.assert_allclose(SinusoidalPositions(width, layout, first=2)(zeros[:, 2:])[0], expected[2:], atol=1e-6)
    np.testing.assert_allclose(sinusoids(2, 2, "split")[1], [math.sin(1), math.cos(1)], atol=1e-6)


def test_sinusoids_of_far_positions():
    expected = np.array([sinusoid(position, 32) for position in (5000, 5001)])
    np.testing.assert_allclose(sinusoids(5002, 32)[5000:], expected, atol=1e-6)
    layer, x_ND = SinusoidalPositions(32), np.ones((1, 32), np.float32)
    found = [layer(x_ND, cache=step_at(position))[0] for position in (5000, 5001)]
    np.testing.assert_allclose(np.array(found) - 1.0, expected, atol=2e-3)  # float32 angles


def step_at(position):
    return StepCache(empty_cache([], 1, None, beams=1), position, {})


def test_learned_positions_repeat_the_last_one():
    layer = LearnedPositions(2, 1)
    layer.build()
    layer.table.assign([[1.0], [2.0]])
    np.testing.assert_array_equal(layer(np.zeros((1, 4, 1), np.float32))[0, :, 0], [1.0, 2.0, 2.0, 2.0])


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_counts_of_words_are_not_rounded_to_16_bits(policy):
    """The sixteenths of long texts, too, which these types do not have."""
    counts = np.arange(0, 300, 1 / 16, np.float32)[None]
    zeros = np.zeros((*counts.shape, 64), np.float32)
    layer = SinusoidalPositions(64, dtype=policy)
    found, exact = layer(tf.cast(zeros, layer.compute_dtype), counts), SinusoidalPositions(64)(zeros, counts)
    np.testing.assert_array_equal(numpy(found), numpy(tf.cast(exact, layer.compute_dtype)))


def test_positions_by_kind():
    assert isinstance(build_positions("sinusoidal", 9, 4), SinusoidalPositions)
    assert isinstance(build_positions("learned", 9, 4), LearnedPositions)
    assert build_positions("none", 9, 4) is None
    with refused("positions=words"):
        build_positions("words", 9, 4)


def test_dropout_of_the_feed_forward_is_inside():
    """With W2 = 1 over 64 inner channels that are all 1, half of them dropped and doubled: near 64, never all of it."""
    layer = FeedForward(1, 64, "relu", 0.5)
    layer.build((None, None, 1))
    layer.inner.kernel.assign(np.ones((1, 64)))
    layer.outer.kernel.assign(np.ones((64, 1)))
    x = np.ones((1, 200, 1), np.float32)
    np.testing.assert_allclose(layer(x), np.full((1, 200, 1), 64.0), rtol=1e-5)
    found = numpy(layer(x, seed=SEED)).ravel()
    np.testing.assert_allclose(found.mean(), 64.0, rtol=0.03)
    np.testing.assert_allclose(found.std(), 8.0, rtol=0.2)  # sqrt(64 * 0.5 * 0.5) * 2
    np.testing.assert_allclose(found % 2.0, 0.0, atol=1e-4)


# === Dropout ===
def test_dropout_of_a_residual_is_on_the_sub_layers_output_alone():
    layer = Residual(lambda x, seed: 0.0 * x + 1.0, "pre", 1e-6, 0.5, name="residual")
    layer.build((None, None, 3))
    x = np.full((1, 500, 3), 7.0, np.float32)
    assert set(np.unique(numpy(layer(x, seed=SEED)))) == {7.0, 9.0}
    np.testing.assert_allclose(layer(x), np.full((1, 500, 3), 8.0))


def dropout(rate, name="dropout"):
    layer = Dropout(rate, name=name)
    layer.build()
    return layer


def test_dropout_zeroes_a_fraction_and_scales_the_rest():
    x = np.full((100, 100), 3.0, np.float32)
    found = numpy(dropout(0.25)(x, seed=SEED))
    np.testing.assert_allclose(np.unique(found), [0.0, 4.0])
    assert abs((found == 0.0).mean() - 0.25) < 0.02  # one standard deviation is 0.0043
    # No pattern along rows or columns: their fractions scatter as independent draws do, by 0.043.
    for axis in (0, 1):
        np.testing.assert_allclose((found == 0.0).mean(axis=axis).std(), 0.043, rtol=0.3)
    for layer, seed in ((dropout(0.25), None), (dropout(0.0), SEED)):
        np.testing.assert_array_equal(layer(x, seed=seed), x)
    assert (numpy(dropout(1 - 2**-20)(x, seed=SEED)) > 0.0).sum() < 10  # one of 2^16 stays, at most


def test_a_mask_depends_on_seed_and_name_alone():
    x = np.ones((50, 50), np.float32)
    first = numpy(dropout(0.5)(x, seed=SEED))
    np.testing.assert_array_equal(numpy(dropout(0.5)(x, seed=SEED)), first)
    np.testing.assert_array_equal(numpy(tf.function(dropout(0.5))(x, seed=SEED)), first)
    for other in (
        dropout(0.5, "another")(x, seed=SEED),
        dropout(0.5)(x, seed=SEED + 1),
        dropout(0.5)(x, seed=SEED[::-1]),
        dropout(0.5)(x, seed=tf.constant([2**62 - 1, 2**62 - 1], tf.int64)),  # has room for every layer's number
    ):
        assert 0.4 < (numpy(other) == first).mean() < 0.6


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_stays_half_precision(dtype):
    x = tf.cast(np.ones((100, 100)), dtype)
    found = Dropout(0.1, dtype=f"mixed_{dtype}", name="half")
    found.build()
    dropped = found(x, seed=SEED)
    assert dropped.dtype == x.dtype
    assert abs((numpy(tf.cast(dropped, tf.float32)) == 0.0).mean() - 0.1) < 0.02
