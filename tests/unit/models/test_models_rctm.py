"""Recurrent continuous translation models against one in numpy (tests/reference/rctm.py), and in decoding."""

import numpy as np
import pytest

from t2t.hparams.rctm import Rctm1HParams, Rctm2HParams
from t2t.models.rctm import Rctm1, Rctm2
from tests.builders import batch, numpy, randomise, tokens_spec, weights_of
from tests.models import (
    check_dropout_follows_its_seed,
    check_logits,
    check_steps_of_beams,
    directional_derivatives,
    loss_of_reference,
)
from tests.reference.lstm import sigmoid
from tests.reference.rctm import Rctm as Reference

SOURCES, TARGETS, LAYERS = (5, 1, 7), (4, 6, 2), 2
KINDS = {
    "one vector": (Rctm1, Rctm1HParams, {}),
    "one vector, sigmoid": (Rctm1, Rctm1HParams, {"activation": "sigmoid"}),
    "one vector, windows beyond the sentence": (Rctm1, Rctm1HParams, {"num_hidden_layers": 5}),
    "columns": (Rctm2, Rctm2HParams, {}),
    "more columns": (Rctm2, Rctm2HParams, {"activation": "sigmoid", "unfolding_factor": 1.5, "unfolding_offset": 2}),
}


def tiny(kind, dtype="float32", **changes):
    """A model of 6 units without dropout, its weights random."""
    model_class, hparams_class, own = KINDS[kind]
    sizes = {"hidden_size": 6, "num_hidden_layers": LAYERS, "dropout": 0.0, **own}
    return randomise(model_class(hparams_class(**(sizes | changes)), tokens_spec(), dtype=dtype))


def reference(model, weights):
    hparams = model.hparams
    unfolding = (hparams.unfolding_factor, hparams.unfolding_offset) if isinstance(model, Rctm2) else None
    function = {"sigmoid": sigmoid, "tanh": np.tanh}[hparams.activation]
    return Reference(weights, hparams.num_hidden_layers, function, unfolding)


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_those_of_an_independent_model_whatever_the_padding(kind):
    model = tiny(kind)
    check_logits(model, reference(model, weights_of(model)), SOURCES, TARGETS, 9)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_finite_differences_of_the_independent_model(kind):
    model = tiny(kind, label_smoothing=0.0)
    features = batch(sources=SOURCES, targets=TARGETS, widths=(9, 8))
    loss = loss_of_reference(lambda weights: reference(model, weights), features)
    for path, found, expected in directional_derivatives(model, features, loss):
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-3, err_msg=path)


@pytest.mark.parametrize("kind", ["one vector", "columns"])
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_steps_of_several_beams_are_teacher_forcing(kind, dtype):
    check_steps_of_beams(tiny(kind, dtype), dtype, SOURCES, length=9)


@pytest.mark.parametrize("kind", ["one vector", "columns"])
def test_dropout_is_a_function_of_its_seed(kind):
    check_dropout_follows_its_seed(tiny(kind, dropout=0.5))


def test_the_mean_of_many_columns_is_as_exact_in_half_precision_as_its_type():
    model = tiny("one vector", "mixed_bfloat16")
    features = batch(sources=range(257, 273))
    columns_BSD, count_B = model.convolutions(*model.read_source(features))
    expected = numpy(columns_BSD).sum(axis=1) / numpy(count_B)[:, None]
    np.testing.assert_allclose(numpy(model.encode(features)), expected, rtol=2**-8)
