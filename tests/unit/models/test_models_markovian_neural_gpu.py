"""The Markovian Neural GPU against one in numpy (tests/reference/neural_gpu.py), by hand, and in decoding."""

import numpy as np
import pytest

from t2t.hparams.neural_gpu import ExtendedNeuralGpuHParams
from t2t.models.markovian_neural_gpu import MarkovianNeuralGpu
from tests.builders import batch, numpy, padded, randomise, tokens_spec, weights_of
from tests.models import (
    check_dropout_follows_its_seed,
    check_logits,
    check_steps_of_beams,
    directional_derivatives,
    loss_of_reference,
)
from tests.reference.neural_gpu import MarkovianNeuralGpu as Reference

SOURCES, TARGETS = (5, 1, 7), (4, 6, 2)
SHAPES = [{}, {"num_hidden_layers": 2, "state_rows": 3}]


def tiny(dtype="float32", **changes):
    """A model of width 6 without dropout, its weights random but so small that rounding does not grow."""
    sizes = {
        "hidden_size": 6, "num_hidden_layers": 1, "dropout": 0.0, "unfolding_factor": 1.2, "unfolding_offset": 1,
    }  # fmt: skip
    model = randomise(MarkovianNeuralGpu(ExtendedNeuralGpuHParams(**(sizes | changes)), tokens_spec(), dtype=dtype))
    for variable in model.variables:
        if variable.path.endswith("kernel"):
            variable.assign(np.asarray(variable) / 3)
    return model


def reference_of(weights, hparams):
    shape = (hparams.num_hidden_layers, hparams.state_rows, hparams.steps_per_position)
    return Reference(weights, *shape, hparams.unfolding_factor, hparams.unfolding_offset)


@pytest.mark.parametrize("changes", SHAPES, ids=str)
def test_logits_are_those_of_an_independent_model_whatever_the_padding(changes):
    """Also of 6 words for a source of one, whose memory has 3 positions."""
    model = tiny(**changes)
    check_logits(model, reference_of(weights_of(model), model.hparams), SOURCES, TARGETS, 9)


@pytest.mark.slow
def test_gradients_are_those_of_finite_differences_of_the_independent_model():
    model = tiny(label_smoothing=0.0)
    features = batch(sources=(3, 1), targets=(3, 4), widths=(4, 5))
    loss = loss_of_reference(lambda weights: reference_of(weights, model.hparams), features)
    for path, found, expected in directional_derivatives(model, features, loss):
        np.testing.assert_allclose(found, expected, rtol=5e-3, atol=2e-3, err_msg=path)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_steps_of_several_beams_are_teacher_forcing(dtype):
    check_steps_of_beams(tiny(dtype), dtype, SOURCES, length=6)


def test_a_word_depends_on_the_one_before_it_and_on_no_other():
    model, inputs = tiny(), padded([[4, 7, 1], [4, 7, 1]])
    logits = numpy(model({"inputs": inputs, "targets": padded([[5, 6, 7, 8, 1], [5, 3, 7, 8, 1]])}))
    assert (np.abs(logits[0] - logits[1]).max(axis=1) > 1e-4).tolist() == [False, False, True, False, False]


def test_dropout_is_a_function_of_its_seed():
    check_dropout_follows_its_seed(tiny(dropout=0.5))
