"""Positions that count words, and the source's vectors of the next word, by hand."""

import numpy as np
import pytest
import tensorflow as tf

from t2t.layers.cache import StepCache, empty_cache
from t2t.layers.next_word import NextWord
from t2t.layers.word_counts import WordCounts, word_starts_of
from t2t.specs.constants import EOS_ID, PAD_ID
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.text.token import TokenEncoder
from tests.builders import numpy, tiny_transformer, tokens_spec
from tests.errors import refused


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
