"""Positions by hand: relative, rotary, and those that count words.

Legend: T queries, S keys, K channels of one head.
"""

import numpy as np
import pytest
import tensorflow as tf

from t2t.layers.cache import StepCache, empty_cache
from t2t.layers.masks import key_offsets
from t2t.layers.positions import (
    NextWord,
    RelativeBias,
    RelativePositions,
    WordCounts,
    buckets_of_offsets,
    rotate,
    word_starts_of,
)
from t2t.specs import EOS_ID, PAD_ID
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.text.words import TokenEncoder
from tests.builders import numpy, tiny_transformer, tokens_spec
from tests.errors import refused


# === Relative positions: Shaw et al. 2018, section 3.2 ===
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


# === Relative biases: Raffel et al. 2020, section 2.1 ===
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


# === Rotary positions: Su et al. 2021, section 3.2.2 ===
def turned(vector, position):
    return numpy(rotate(np.array([[[vector]]], np.float32), np.array([position])))[0, 0, 0]


def test_a_product_depends_on_the_distance_alone():
    query, key = np.random.default_rng(0).normal(size=(2, 8))
    products = [turned(query, start) @ turned(key, start + 3) for start in (0, 5, 40)]
    np.testing.assert_allclose(products, products[0], rtol=1e-4)
    assert abs(turned(query, 0) @ turned(key, 4) - products[0]) > 1e-3


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_16_bit_channels_are_rotated_in_float32_and_rounded_once(dtype):
    x = tf.cast(np.random.default_rng(0).normal(size=(2, 3, 5, 8)), dtype)
    exact = rotate(tf.cast(x, "float32"), np.arange(5) + 300)
    np.testing.assert_array_equal(rotate(x, np.arange(5) + 300), tf.cast(exact, dtype))


# === Positions that count words ===
@pytest.mark.parametrize("first", [0, 1])
def test_counts_of_words_by_hand(first):
    """Ids 3 and 5 start words, 2 and 4 do not; a decoding step continues the count. Word 1 has more than 16 symbols."""
    layer = WordCounts("000101", first)
    ids_BT = np.array([[3, 4, 5, 2] + [4] * 18, [2, 4, 3, 4] + [4] * 16 + [3, 3]])
    sixteenths = np.array([[16, 17, 32, 33, *range(34, 48), 47, 47, 47, 47], [1, 2, *range(16, 32), 31, 31, 32, 48]])
    expected = first + sixteenths / 16
    np.testing.assert_array_equal(layer(ids_BT), expected)
    cache = empty_cache([layer], 2, None, beams=1)
    for position in range(ids_BT.shape[1]):
        step = StepCache(cache, position, {})
        np.testing.assert_array_equal(layer(ids_BT[:, position], cache=step), expected[:, position])
        cache = step.result()


def test_the_tag_of_a_word_is_chosen_at_the_position_of_the_word():
    """Whatever pieces the words have and brackets there are: (A (B dog sleeps)), with `dog` in three pieces."""
    piece = phrase = 2
    word = tag = 3
    layers = [WordCounts("0001", n) for n in (0, 1)]
    source, written = np.array([[word, piece, piece, word]]), np.array([[phrase, phrase, tag, phrase, phrase]])
    places = [np.floor(layer(ids)) for layer, ids in zip(layers, (source, written), strict=True)]
    np.testing.assert_array_equal(places[0], [[1, 1, 1, 2]])
    np.testing.assert_array_equal(places[1], [[1, 1, 2, 2, 2]])


@pytest.mark.parametrize("starts", [TokenEncoder(["a", "b"]).word_starts(), "1" * 5], ids=["words", "a plug-in's"])
def test_padding_and_the_end_begin_no_word(starts):
    """A source of words 1 and 2, the end of sequence, and padding; a target behind the padding that begins it."""
    source, target = np.array([[3, 4, EOS_ID, PAD_ID]]), np.array([[PAD_ID, 3, 4, EOS_ID]])
    np.testing.assert_array_equal(np.floor(WordCounts(starts)(source)), [[1, 2, 2, 2]])
    np.testing.assert_array_equal(np.floor(WordCounts(starts, 1)(target)), [[1, 2, 3, 3]])


def spec_of(name, **word_starts):
    """Returns a spec of features of four ids with these `word_starts`."""
    features = {
        feature: FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=4, word_starts=starts)
        for feature, starts in word_starts.items()
    }
    return ProblemSpec(name=name, features=features, shared_vocabulary=True)


def mixture(*members):
    return ProblemSpec(name="-".join(member.name for member in members), members=members)


def test_words_that_nobody_tells_are_not_counted():
    for spec, *named in (
        (spec_of("a", targets=""), "a"),
        (mixture(spec_of("a", targets="0111"), spec_of("b", targets="")), "b"),
        (mixture(spec_of("a", targets="0111"), spec_of("b", targets="0101")), "b", "a"),
    ):
        with refused("positions=words", "targets", *named):
            word_starts_of(spec, "targets")


def test_problems_of_a_mixture_count_words_as_each_alone():
    """If their words begin with the same ids; the model of each has the outputs of one with its weights alone."""
    one, other = (spec_of(name, inputs="0111", targets="0101") for name in ("one", "other"))
    both = tiny_transformer(mixture(one, other), positions="words", read_next_word=True, shared_modalities=True)
    alone = tiny_transformer(one, positions="words", read_next_word=True)
    for variable, shared in zip(alone.variables, both.variables, strict=True):
        variable.assign(shared)
    features = {"inputs": np.array([[3, 2, 1]], np.int32), "targets": np.array([[3, 2, 3, 1]], np.int32)}
    for name in ("one", "other"):
        np.testing.assert_array_equal(numpy(both.for_problem(name)(features)), numpy(alone(features)))


# === The next word ===
def next_word(policy="float32"):
    """Returns a layer of two channels whose projection doubles them."""
    layer = NextWord(2, dtype=policy)
    layer.build((None, None, 2))
    layer.project.kernel.assign([[2.0, 0.0], [0.0, 2.0]])
    return layer


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_the_pieces_of_the_next_word_are_averaged_and_projected(policy):
    """Word 1 has two pieces, word 255 one, and the last position is padding. Nothing is added after the last word.

    The counts are not rounded to bfloat16, in which 255 + 15/16 is 256.
    """
    layer = next_word(policy)
    vectors = np.array([[[1.0, 2.0], [3.0, 6.0], [10.0, 20.0], [100.0, 100.0]]], np.float32)
    count = np.array([[1.0, 1 + 1 / 16, 255.0, 255 + 1 / 16]], np.float32)
    words = layer.read_source(tf.cast(vectors, layer.compute_dtype), count, np.array([[True, True, True, False]]))
    x = tf.ones((1, 4, 2), layer.compute_dtype)
    found = layer(x, np.array([[1.0, 255 + 15 / 16, 256.0, 0.5]], np.float32), words)
    np.testing.assert_array_equal(numpy(found), [[[5.0, 9.0], [21.0, 41.0], [1.0, 1.0], [1.0, 1.0]]])


def test_a_model_without_inputs_has_no_next_word_to_read():
    spec = tokens_spec(None, 9, tells_words=True)
    with refused("read_next_word"):
        tiny_transformer(spec=spec, positions="words", read_next_word=True)
