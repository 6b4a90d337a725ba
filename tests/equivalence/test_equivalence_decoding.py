"""Decoding step by step is the full forward pass; a batch of n is n batches of 1, on any number of devices.

Legend: B sentences, K rows of a sentence, N = B * K, T target length, V vocabulary.
"""

import functools
import random

import numpy as np
import pytest
import tensorflow as tf

from t2t.backends import backend
from t2t.backends.tensorflow.devices import build_strategy
from t2t.backends.tensorflow.functions import TensorFlowFunction, copies_of
from t2t.inference.evaluator import Evaluator
from t2t.models.transformer import Transformer
from t2t.models.transformer_encoder import TransformerEncoder
from t2t.specs import EOS_ID
from tests.builders import batch, numpy, padded, rows, tiny_transformer
from tests.letters import letters, letters_alone, moods, translator_of
from tests.models import check_steps_of_beams, stepwise

CONFIGURATIONS = {
    "paper": {},
    "pre-norm, biases, learned positions": {"norm_position": "pre", "attention_bias": True, "positions": "learned"},
    "other channels": {"attention_key_channels": 4, "attention_value_channels": 12},
    "no positions": {"positions": "none"},
    "relative positions": {"positions": "relative", "max_relative_position": 2, "relative_keys": 3},
    "rotary positions": {"positions": "rotary"},
    "positions of words": {"positions": "words"},
    "the next word": {"positions": "words", "read_next_word": True},
    "relative biases": {"positions": "relative_bias", "relative_bias_buckets": 8, "relative_bias_max_distance": 5},
    "padding before the first target": {"target_start": "pad"},
    "the end of sequence before the first target": {"target_start": "id", "sinusoid_layout": "split"},
    "shared heads of keys and values": {"num_heads": 4, "num_kv_heads": 2},
}


def model_of(name, layers=1):
    return tiny_transformer(**{"num_hidden_layers": layers, **CONFIGURATIONS[name]})


OF_POSITIONS = ("relative positions", "rotary positions", "positions of words", "the next word", "relative biases")


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_cached_decoding_is_the_full_forward_pass(name):
    """Three sources of different lengths with two different targets each; the cache is longer than the targets.

    Those whose caches hold other things are compiled, too, with beams and in graphs of unknown sizes.
    """
    model = model_of(name, layers=2 if name == "paper" else 1)
    features = batch(widths=(9, 0))
    targets = padded(rows(np.random.default_rng(3), (6, 4, 5, 6, 2, 6)))
    full = numpy(model({"inputs": np.repeat(features["inputs"], 2, axis=0), "targets": targets}))
    found = stepwise(model, features, targets, length=8)
    keep = targets != 0
    np.testing.assert_allclose(found[keep], full[keep], rtol=1e-4, atol=1e-5)
    if name in (*OF_POSITIONS, "shared heads of keys and values"):
        check_steps_of_beams(model, "float32", length=4)


def test_the_cache_holds_the_heads_of_keys_and_values_alone():
    cache = tiny_transformer(num_heads=4, num_kv_heads=2).init_cache(None, 6, 5, beams=3)
    for keys_values in cache.keys_values.values():
        assert [part.shape for part in keys_values] == [(2, 2, 15, 2)] * 2


# === Outputs do not depend on the rest of the batch, and exact ties are broken consistently ===

TIED = ["a b c", "d", "h g f e d c b a", "d", "a b c", "", "d d", "e e e e e e", "d"]


def in_every_company(translator, changes):
    """Yields each text and its outputs, in several orders and with repeated texts, in batches of one and of many."""
    places = list(range(len(TIED)))
    for order in (places, places[::-1], random.Random(1).sample(places * 2, 2 * len(places))):
        for decode_batch_size in (1, 4096):
            texts, ways = [TIED[place] for place in order], {**changes, "decode_batch_size": decode_batch_size}
            yield from zip(texts, translator.translate(texts, changes.get("beam_size", 1), **ways), strict=True)


@pytest.mark.parametrize("changes", [{"beam_size": 4, "alpha": 0.0}, {"beam_size": 2, "alpha": 1.0}], ids=str)
@pytest.mark.slow
def test_exact_ties_break_one_way_in_every_company(changes):
    """All ids are always equally likely."""
    translator, expected = translator_of(letters(), num_hidden_layers=1), {}
    table = translator.model.target_embedding.table
    table.assign(np.zeros(table.shape))
    for text, outputs in in_every_company(translator, changes):
        outputs = [(one.ids, one.score, one.log_prob) for one in outputs]
        assert expected.setdefault(text, outputs) == outputs
    if not changes["alpha"]:  # longer outputs do not score higher, and the lowest allowed id wins
        assert {outputs[0][0] for text, outputs in expected.items() if text.strip()} == {(EOS_ID,)}


def test_the_same_is_found_in_every_company():
    separate = {"norm_position": "pre", "shared_embedding_and_softmax_weights": False}
    translator, expected = translator_of(letters(), hidden_size=16, num_hidden_layers=1, **separate), {}
    for text, outputs in in_every_company(translator, {"beam_size": 3}):
        first = expected.setdefault(text, outputs)
        assert [one.ids for one in outputs] == [one.ids for one in first]
        for figure in ("score", "log_prob"):
            found, wanted = ([getattr(one, figure) for one in several] for several in (outputs, first))
            np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert len({one.ids for outputs in expected.values() for one in outputs}) > 2 * 3


# === Several devices give what one device gives, bit for bit ===

DEVICES = 2
SENTENCES = [[3 + (7 * i + j) % 6 for j in range(1 + i % 9)] for i in range(40)]
SEARCHES = {"beam": {"n_best": 3}, "sample": {"decode_method": "sample", "n_best": 2, "seed": 3}}


@functools.cache
def translator_of_devices(devices, problem):
    """Returns a shared translator, which tests must not change."""
    return translator_on(devices, problem(), TransformerEncoder if problem is moods else Transformer)


def translator_on(devices, problem, model_class=Transformer):
    """Returns a translator with small batches; the model does not depend on the number of devices."""
    with build_strategy(worker_cpu=devices).scope():
        return translator_of(problem, model_class, decoding={"decode_batch_size": 60}, num_hidden_layers=1)


@pytest.mark.parametrize(
    ("problem", "search"),
    [
        pytest.param(letters, "beam", id="translation-beam"),
        pytest.param(letters, "sample", id="translation-sample", marks=pytest.mark.slow),
        pytest.param(letters_alone, "beam", id="continuation", marks=pytest.mark.slow),
        pytest.param(moods, "beam", id="classes"),
    ],
)
def test_decoding(problem, search):
    one, several = (
        translator_of_devices(devices, problem).translate_ids(SENTENCES, **SEARCHES[search]) for devices in (1, DEVICES)
    )
    assert one == several  # texts, ids and scores


@pytest.mark.parametrize("problem", [letters, pytest.param(letters_alone, marks=pytest.mark.slow)])
def test_scoring(problem):
    one, several = (
        translator_of_devices(devices, problem).score_ids(SENTENCES, SENTENCES[::-1]) for devices in (1, DEVICES)
    )
    assert one == several


def test_what_is_traced_on_one_device_runs_on_that_of_its_caller():
    model = translator_on(DEVICES, letters()).model
    names = backend().devices_of(model)
    with backend().use_device(1, names[1]):
        double = TensorFlowFunction(lambda x_B: 2.0 * x_B, [tf.TensorSpec([None])], model)
    for number, name in enumerate(names):
        with backend().use_device(number, name):
            assert double(tf.constant([1.0])).device == name


def test_evaluation():
    batches = [
        (np.arange(8), {name: padded(SENTENCES[i : i + 8]) for name in ("inputs", "targets")}) for i in (0, 8, 16, 24)
    ]
    figures = [
        Evaluator(translator_of_devices(devices, letters).model, batches, None, ())() for devices in (1, DEVICES)
    ]
    assert figures[0] == figures[1]


def test_a_device_reads_its_own_copy_of_the_weights():
    """Different copies, which do not occur in practice, show which copy each device reads."""
    model = translator_on(DEVICES, letters()).model
    assert len(set(backend().devices_of(model))) == DEVICES
    kernel = model.trainable_variables[0]
    number = next(i for i, variable in enumerate(model.variables) if variable is kernel)
    for value, copies in enumerate(copies_of(model), start=1):
        copies[number].assign(tf.fill(copies[number].shape, float(value)))
    read = TensorFlowFunction(lambda x: tf.reduce_max(kernel) * x, [tf.TensorSpec([], tf.float32)], model)
    for device, name in enumerate(backend().devices_of(model)):
        with backend().use_device(device, name):
            found = read(tf.constant(1.0))
        assert found.numpy() == device + 1
        assert found.device == name


@pytest.mark.slow
def test_weights_that_change_are_read_anew():
    translator = translator_on(DEVICES, letters())
    before = translator.score_ids(SENTENCES, SENTENCES)
    for variable in translator.model.trainable_variables:
        variable.assign(variable * 0.5)
    after = translator.score_ids(SENTENCES, SENTENCES)
    assert not np.isclose(before, after).any()
    alone = translator_on(1, letters())
    for variable in alone.model.trainable_variables:
        variable.assign(variable * 0.5)
    assert after == alone.score_ids(SENTENCES, SENTENCES)
