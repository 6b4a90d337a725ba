"""Deep-Att against one in numpy (tests/reference/deep_att.py), its size, and in decoding."""

import math

import numpy as np
import pytest

from t2t.hparams.deep_att import DeepAttHParams
from t2t.models.deep_att import DeepAtt
from tests.builders import batch, randomise, tokens_spec, weights_of
from tests.models import (
    check_dropout_follows_its_seed,
    check_logits,
    check_steps_of_beams,
    directional_derivatives,
    loss_of_reference,
)
from tests.reference.deep_att import DeepAtt as Reference

SOURCES, TARGETS, LAYERS = (5, 1, 7), (4, 6, 2), (3, 2)


def tiny(dtype="float32", **changes):
    """A model of columns of three layers of 6 units, two layers that write, without dropout, its weights random."""
    sizes = {"hidden_size": 6, "num_hidden_layers": LAYERS[0], "num_decoder_layers": LAYERS[1], "dropout": 0.0}
    return randomise(DeepAtt(DeepAttHParams(**(sizes | changes)), tokens_spec(), dtype=dtype))


def test_logits_are_those_of_an_independent_model_whatever_the_padding():
    model = tiny()
    check_logits(model, Reference(weights_of(model), *LAYERS), SOURCES, TARGETS, 9, atol=1e-4)


@pytest.mark.slow
def test_gradients_are_those_of_finite_differences_of_the_independent_model():
    model = tiny(label_smoothing=0.0)
    features = batch(sources=SOURCES, targets=TARGETS, widths=(9, 8))
    loss = loss_of_reference(lambda weights: Reference(weights, *LAYERS), features)
    for path, found, expected in directional_derivatives(model, features, loss):
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-3, err_msg=path)


@pytest.mark.parametrize(("cell", "dtype"), [("lstm", "float32"), ("lstm", "mixed_bfloat16"), ("gru", "float32")])
def test_steps_of_several_beams_are_teacher_forcing(cell, dtype):
    check_steps_of_beams(tiny(dtype, cell=cell), dtype, SOURCES, length=6)


def test_dropout_is_a_function_of_its_seed():
    check_dropout_follows_its_seed(tiny(dropout=0.5))


def test_its_weights_are_counted_by_hand():
    """Of D units: 8 D^2 a cell that reads D, 16 D^2 one that reads half of 4 D and D."""
    width, vocab = 6, tokens_spec().targets.vocab_size
    squares = 2 * (8 + 16 * 2) + 10 + (8 + 16) + 4 + 3 + 2
    expected = squares * width**2 + (4 * (2 * 3 + 2) + 1) * width + vocab * width
    assert sum(math.prod(value.shape) for value in weights_of(tiny()).values()) == expected
