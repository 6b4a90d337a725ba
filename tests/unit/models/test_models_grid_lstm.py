"""Grid LSTM against one in numpy (tests/reference/grid_lstm.py), its size, and in decoding."""

import math

import numpy as np
import pytest

from t2t.hparams.grid_lstm import GridLstmHParams
from t2t.models.grid_lstm import GridLstm
from tests.builders import batch, randomise, tokens_spec, weights_of
from tests.models import (
    check_dropout_follows_its_seed,
    check_logits,
    check_steps_of_beams,
    directional_derivatives,
    loss_of_reference,
)
from tests.reference.grid_lstm import GridLstm as Reference

SOURCES, TARGETS, GRIDS = (5, 1, 7), (4, 6, 2), 3


def tiny(dtype="float32", **changes):
    """A model of three grids of 6 units without dropout, its weights random."""
    sizes = {"hidden_size": 6, "num_hidden_layers": GRIDS, "dropout": 0.0}
    return randomise(GridLstm(GridLstmHParams(**(sizes | changes)), tokens_spec(), dtype=dtype))


def test_logits_are_those_of_an_independent_model_whatever_the_padding():
    """Source longer than target and the other way round: diagonals begin and end at either side."""
    model = tiny()
    check_logits(model, Reference(weights_of(model), GRIDS), SOURCES, TARGETS, 9)


@pytest.mark.slow
def test_gradients_are_those_of_finite_differences_of_the_independent_model():
    model = tiny(label_smoothing=0.0)
    features = batch(sources=SOURCES, targets=TARGETS, widths=(9, 8))
    loss = loss_of_reference(lambda weights: Reference(weights, GRIDS), features)
    for path, found, expected in directional_derivatives(model, features, loss):
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-3, err_msg=path)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_steps_of_several_beams_are_teacher_forcing(dtype):
    check_steps_of_beams(tiny(dtype), dtype, SOURCES, length=6)


def test_dropout_is_a_function_of_its_seed():
    check_dropout_follows_its_seed(tiny(dropout=0.5))


def test_its_weights_are_counted_by_hand():
    """Of D units: three cells a block, each with four gates of 3 D numbers; two maps of D to 2 D."""
    width, vocab = 6, tokens_spec().targets.vocab_size
    expected = (GRIDS * 36 + 4) * width**2 + (GRIDS * 12 + 2) * width + vocab * width
    assert sum(math.prod(value.shape) for value in weights_of(tiny()).values()) == expected
