"""Decoding, scoring and evaluation on several devices are bit-identical to those on one device."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from t2t.inference.evaluator import Evaluator
from t2t.inference.tensorflow.devices import TensorFlowFunction, copies_of, devices_of, use_device
from t2t.models.transformer import Transformer
from t2t.models.transformer_encoder import TransformerEncoder
from t2t.training.tensorflow.distribute import build_strategy
from tests.builders import padded
from tests.letters import letters, letters_alone, moods, translator_of

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
    names = devices_of(model)
    with use_device(1, names[1]):
        double = TensorFlowFunction(model, lambda x_B: 2.0 * x_B, [tf.TensorSpec([None])])
    for number, name in enumerate(names):
        with use_device(number, name):
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
    assert len(set(devices_of(model))) == DEVICES
    kernel = model.trainable_variables[0]
    number = next(i for i, variable in enumerate(model.variables) if variable is kernel)
    for value, copies in enumerate(copies_of(model), start=1):
        copies[number].assign(tf.fill(copies[number].shape, float(value)))
    read = TensorFlowFunction(model, lambda x: tf.reduce_max(kernel) * x, [tf.TensorSpec([], tf.float32)])
    for device, name in enumerate(devices_of(model)):
        with use_device(device, name):
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
