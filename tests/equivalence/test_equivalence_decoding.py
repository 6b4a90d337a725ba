"""Decoding step by step equals the full forward pass; scoring and continuing a batch of n equals n batches of 1.

That searching a batch does, too, is tested in `test_equivalence_ties.py`.

Legend: B sentences, K rows of a sentence, N = B * K, T target length, V vocabulary.
"""

import numpy as np
import pytest
from keras import ops

from t2t.hparams.groups import DecodeHParams
from t2t.inference.translator import Translator
from t2t.problems.text_problems import Text2Self, Text2Text
from t2t.text.token import TokenEncoder
from tests.builders import batch, numpy, padded, rows, tiny_transformer, tokens_spec
from tests.models import check_steps_of_beams

CONFIGURATIONS = {
    "paper": {},
    "pre-norm, biases, learned positions": {"norm_position": "pre", "attention_bias": True, "positions": "learned"},
    "other channels": {"attention_key_channels": 4, "attention_value_channels": 12},
    "no positions": {"positions": "none"},
    "relative positions": {"positions": "relative", "max_relative_position": 2},
    "rotary positions": {"positions": "rotary"},
    "positions of words": {"positions": "words"},
    "the next word": {"positions": "words", "read_next_word": True},
    "relative biases": {"positions": "relative_bias", "relative_bias_buckets": 8, "relative_bias_max_distance": 5},
    "padding before the first target": {"target_start": "pad"},
    "the end of sequence before the first target": {"target_start": "id", "sinusoid_layout": "split"},
    "shared heads of keys and values": {"num_heads": 4, "num_kv_heads": 2},
}


def stepwise(model, features, targets_NT, length):
    """Returns logits (N, T, V) of `decode_step` with the ids of the reference as inputs."""
    encoded = model.encode(features)
    cache = model.init_cache(encoded, len(targets_NT), length)
    found, last_N = [], np.zeros(len(targets_NT), np.int32)
    for position in range(targets_NT.shape[1]):
        logits_NV, cache = model.decode_step(last_N, position, cache, encoded)
        found.append(numpy(logits_NV))
        last_N = targets_NT[:, position]
    return np.stack(found, axis=1)


def model_of(name, layers=1):
    return tiny_transformer(**{"num_hidden_layers": layers, **CONFIGURATIONS[name]})


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_cached_decoding_is_the_full_forward_pass(name):
    """Three sources of different lengths with two different targets each; the cache is longer than the targets."""
    model = model_of(name, layers=2 if name == "paper" else 1)
    features = batch(widths=(9, 0))
    targets = padded(rows(np.random.default_rng(3), (6, 4, 5, 6, 2, 6)))
    full = numpy(model({"inputs": np.repeat(features["inputs"], 2, axis=0), "targets": targets}))
    found = stepwise(model, features, targets, length=8)
    keep = targets != 0
    np.testing.assert_allclose(found[keep], full[keep], rtol=1e-4, atol=1e-5)


OF_POSITIONS = ("relative positions", "rotary positions", "positions of words", "the next word", "relative biases")


@pytest.mark.parametrize("name", [*OF_POSITIONS, "shared heads of keys and values"])
def test_steps_of_beams_in_graphs_of_unknown_sizes_are_the_full_forward_pass(name):
    check_steps_of_beams(model_of(name), "float32")


def test_the_cache_holds_the_heads_of_keys_and_values_alone():
    cache = tiny_transformer(num_heads=4, num_kv_heads=2).init_cache(None, 6, 5, beams=3)
    for keys_values in cache.keys_values.values():
        assert [part.shape for part in keys_values] == [(2, 2, 15, 2)] * 2


def test_cached_decoding_without_inputs():
    model = tiny_transformer(tokens_spec(inputs=0))
    targets = padded(rows(np.random.default_rng(3), (6, 6)))
    np.testing.assert_allclose(
        stepwise(model, {}, targets, length=6), numpy(model({"targets": targets})), rtol=1e-4, atol=1e-5
    )


def changed_at_each(ids_BT, others_T):
    """Returns batches with one position changed, and at the end the one without changes, (T + 1, B, T)."""
    batches = np.stack([ids_BT] * (ids_BT.shape[1] + 1))
    for position, other in enumerate(others_T):
        batches[position, :, position] = other
    return batches


def test_a_later_target_changes_nothing_before_it():
    features = batch(sources=(5, 5), targets=(7, 7))
    targets = changed_at_each(features["targets"], [12] * 7)
    inputs = np.concatenate([features["inputs"]] * 8)
    *found, full = numpy(tiny_transformer()({"inputs": inputs, "targets": targets.reshape(16, 7)})).reshape(8, 2, 7, -1)
    for position, logits in enumerate(found):
        np.testing.assert_allclose(logits[:, : position + 1], full[:, : position + 1], rtol=1e-5, atol=1e-6)
        if position < 6:
            assert np.abs(logits[:, position + 1] - full[:, position + 1]).max() > 1e-3


def test_every_source_position_reaches_every_target_position():
    features = batch(sources=(5,), targets=(4,))
    inputs = changed_at_each(features["inputs"], 2 + (features["inputs"][0, :4] - 1) % 11)[[0, 1, 2, 3, 5], 0]
    *found, full = numpy(tiny_transformer()({"inputs": inputs, "targets": np.repeat(features["targets"], 5, axis=0)}))
    assert (np.abs(np.array(found) - full).max(axis=-1) > 1e-4).all()


# === Through the Python API ===

WORDS = [f"w{i}" for i in range(10)]
TEXTS = ["w1 w2 w3", "w4", "w5 w6 w7 w8 w9 w1 w2", "", "w3 w3", "w9 w8 w7 w6 w5"]


def translator(problem, **decode):
    encoder = TokenEncoder(tuple(WORDS))
    problem = problem.with_encoders(dict.fromkeys(problem.text_features, encoder))
    # A random model whose outputs have many lengths.
    separate = {"norm_position": "pre", "shared_embedding_and_softmax_weights": False}
    model = tiny_transformer(problem.spec(), seed=3, hidden_size=16, **separate)
    return Translator(problem, model, DecodeHParams(extra_length=4, **decode))


class Words(Text2Text):
    name = "words"
    vocabulary = tuple(WORDS)

    def generate_samples(self, split, source):
        raise NotImplementedError


class Continuations(Text2Self):
    name = "continuations"
    vocabulary = tuple(WORDS)

    def generate_samples(self, split, source):
        raise NotImplementedError


@pytest.fixture(scope="module")
def words():
    return translator(Words())


def assert_same_hypotheses(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert [h.ids for h in one] == [h.ids for h in other]
        np.testing.assert_allclose([h.score for h in one], [h.score for h in other], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose([h.log_prob for h in one], [h.log_prob for h in other], rtol=1e-4, atol=1e-5)


def test_scoring_a_batch_is_scoring_one_by_one(words):
    pairs = list(zip(TEXTS, reversed(TEXTS), strict=True))
    np.testing.assert_allclose(words.score(pairs), [words.score([pair])[0] for pair in pairs], rtol=1e-5)


def test_a_hypothesis_has_the_log_probability_that_scoring_gives_it(words):
    """Search sums them over cached steps; scoring uses one full forward pass."""
    checked = 0
    for text, hypotheses in zip(TEXTS, words.translate(TEXTS, 4, beam_size=4), strict=True):
        for hypothesis in hypotheses:
            if hypothesis.ids[-1] == 1 and 2 not in hypothesis.ids:  # the unknown id has no text to score
                np.testing.assert_allclose(words.score([(text, hypothesis.text)])[0], hypothesis.log_prob, rtol=1e-4)
                checked += 1
    assert checked > 5


def test_continuing_a_batch_of_beginnings_is_continuing_each():
    writer = translator(Continuations())
    beginnings = [text for text in TEXTS if text]
    together = writer.translate(beginnings, 2, beam_size=2)
    assert_same_hypotheses(together, [writer.translate([text], 2, beam_size=2)[0] for text in beginnings])
    for beginning, found in zip(beginnings, together, strict=True):
        assert all(f"{hypothesis.text} ".startswith(f"{beginning} ") for hypothesis in found)


@pytest.mark.slow
def test_greedy_is_the_likeliest_id_of_the_full_forward_pass_each_time(words):
    for text, (hypothesis,) in zip(TEXTS, words.translate(TEXTS, decode_method="greedy"), strict=True):
        source = [*words.problem.encoders["inputs"].encode(text), 1]
        written = []
        while len(written) < len(source) + 4 and 1 not in written:
            features = {"inputs": padded([source]), "targets": np.array([[*written, 2]], np.int32)}
            logits = numpy(ops.log_softmax(words.model(features)))[0, -1]
            logits[0] = -np.inf  # a model cannot write padding
            written.append(int(logits.argmax()))
        assert hypothesis.ids == tuple(written)
