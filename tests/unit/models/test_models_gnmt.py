"""GNMT against one in numpy (tests/reference/gnmt.py), its size, and in decoding."""

import math

import numpy as np
import pytest

from t2t.errors import UserError
from t2t.hparams.gnmt import GnmtHParams, gnmt_tiny
from t2t.models.gnmt import Gnmt
from tests.builders import batch, randomise, tokens_spec, weights_of
from tests.models import (
    check_dropout_follows_its_seed,
    check_logits,
    check_steps_of_beams,
    directional_derivatives,
    loss_of_reference,
)
from tests.reference.gnmt import Gnmt as Reference

SOURCES, TARGETS, LAYERS = (5, 1, 7), (4, 6, 2), 4


def tiny(dtype="float32", **changes):
    """A model of four layers of 6 units without dropout, its weights random."""
    changes = {"hidden_size": 6, "num_hidden_layers": LAYERS, "dropout": 0.0, **changes}
    return randomise(Gnmt(GnmtHParams(**changes), tokens_spec(), dtype=dtype))


def test_logits_are_those_of_an_independent_model_whatever_the_padding():
    model = tiny()
    check_logits(model, Reference(weights_of(model), LAYERS), SOURCES, TARGETS, 9, atol=2e-5)


@pytest.mark.slow
def test_gradients_are_those_of_finite_differences_of_the_independent_model():
    model = tiny(label_smoothing=0.0)
    features = batch(sources=SOURCES, targets=TARGETS, widths=(9, 8))
    loss = loss_of_reference(lambda weights: Reference(weights, LAYERS), features)
    for path, found, expected in directional_derivatives(model, features, loss):
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-3, err_msg=path)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_steps_of_several_beams_are_teacher_forcing(cell, dtype):
    check_steps_of_beams(tiny(dtype, cell=cell), dtype, SOURCES, length=6)


def test_dropout_is_a_function_of_its_seed():
    check_dropout_follows_its_seed(tiny(dropout=0.5))


def test_paths_of_weights_are_a_format_and_stay():
    cells = [f"encoder/layer_{name}/cell" for name in ("0_forward", "0_backward", 1, 2, 3)]
    cells += [f"decoder/cell_{i}" for i in range(LAYERS)]
    assert sorted(weights_of(tiny())) == sorted([
        "target_embedding/table",
        *(f"{cell}/{name}" for cell in cells for name in ("input_kernel", "recurrent_kernel", "bias")),
        *(f"decoder/context_kernel_{i}" for i in range(LAYERS)),
        *(f"decoder/attention/{name}_kernel" for name in ("memory", "query", "score")),
    ])  # fmt: skip


def test_one_layer_is_refused():
    with pytest.raises(UserError, match="hparam num_hidden_layers=1: the encoder of GNMT has one layer in both dir"):
        gnmt_tiny().replace(num_hidden_layers=1).freeze()


def test_its_weights_are_counted_by_hand():
    """Of D units: 8 D^2 a cell, 4 more for each vector that is read beside, and 2 D^2 + D of attention."""
    width, vocab = 6, tokens_spec().targets.vocab_size
    cells = (16 + 12 + 8 * (LAYERS - 2)) + 12 * LAYERS
    biases = 4 * (LAYERS + 1) + 4 * LAYERS
    expected = (cells + 2) * width**2 + (biases + 1) * width + vocab * width
    assert sum(math.prod(value.shape) for value in weights_of(tiny()).values()) == expected
