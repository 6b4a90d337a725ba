"""The Extended and the Markovian Neural GPU against those in numpy (tests/reference/neural_gpu.py), by hand, and in
decoding.

Legend: B batch, P positions, T target length, D width.
"""

import numpy as np
import pytest

from t2t.hparams.neural_gpu import ExtendedNeuralGpuHParams
from t2t.models.extended_neural_gpu import ExtendedNeuralGpu
from t2t.models.markovian_neural_gpu import MarkovianNeuralGpu
from tests.builders import batch, numpy, padded, randomise, tokens_spec, weights_of
from tests.models import (
    check_dropout_follows_its_seed,
    check_logits,
    check_steps_of_beams,
    directional_derivatives,
    dropout_seed,
    loss_of_reference,
)
from tests.reference import neural_gpu as reference

SOURCES, TARGETS = (5, 1, 7), (4, 6, 2)
UNFOLDING = {"unfolding_factor": 1.2, "unfolding_offset": 1}
REFERENCES = {ExtendedNeuralGpu: reference.ExtendedNeuralGpu, MarkovianNeuralGpu: reference.MarkovianNeuralGpu}
SHAPES = [
    (ExtendedNeuralGpu, {}),
    (ExtendedNeuralGpu, {"num_hidden_layers": 2, "state_rows": 3}),
    (MarkovianNeuralGpu, {"num_hidden_layers": 2, "state_rows": 3}),
    (ExtendedNeuralGpu, {"steps_per_position": 2, "kernel_size": 5}),
]


def tiny(dtype="float32", model_class=ExtendedNeuralGpu, **changes):
    """A model of width 6 without dropout, its weights random but so small that rounding does not grow."""
    sizes = {"hidden_size": 6, "num_hidden_layers": 1, "dropout": 0.0, **UNFOLDING}
    model = randomise(model_class(ExtendedNeuralGpuHParams(**(sizes | changes)), tokens_spec(), dtype=dtype))
    for variable in model.variables:
        if variable.path.endswith("kernel"):
            variable.assign(np.asarray(variable) / 3)
    return model


def reference_of(weights, model):
    hparams = model.hparams
    shape = (hparams.num_hidden_layers, hparams.state_rows, hparams.steps_per_position)
    return REFERENCES[type(model)](weights, *shape, hparams.unfolding_factor, hparams.unfolding_offset)


@pytest.mark.parametrize(("model_class", "changes"), SHAPES)
def test_logits_are_those_of_an_independent_model_whatever_the_padding(model_class, changes):
    """Also of 6 words for a source of one, whose memory has 3 positions."""
    model = tiny(model_class=model_class, **changes)
    check_logits(model, reference_of(weights_of(model), model), SOURCES, TARGETS, 9)


@pytest.mark.slow
@pytest.mark.parametrize(("model_class", "changes"), SHAPES[:3])
def test_gradients_are_those_of_finite_differences_of_the_independent_model(model_class, changes):
    model = tiny(model_class=model_class, label_smoothing=0.0, **changes)
    features = batch(sources=(3, 1), targets=(3, 4), widths=(4, 5))
    loss = loss_of_reference(lambda weights: reference_of(weights, model), features)
    for path, found, expected in directional_derivatives(model, features, loss):
        np.testing.assert_allclose(found, expected, rtol=5e-3, atol=2e-3, err_msg=path)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize(("model_class", "changes"), SHAPES[:3])
def test_steps_of_several_beams_are_teacher_forcing(model_class, changes, dtype):
    check_steps_of_beams(tiny(dtype, model_class, **changes), dtype, SOURCES, length=6)


# === By hand ===


def silenced(width=3):
    """A model with one memory position per word, whose gated units have zero weights and biases."""
    model = tiny(hidden_size=width, unfolding_factor=1.0, unfolding_offset=0)
    for variable in model.variables:
        if "unit_0" in variable.path:
            variable.assign(np.zeros(variable.shape))
    return model


def test_gates_that_are_half_open_halve_the_memory_at_every_step():
    """Three positions take three encoder steps; the word at t is written after t + 1 decoder steps."""
    model = silenced()
    source = np.array([[4, 7, 1]], np.int32)
    hidden = numpy(model.body({"inputs": source, "targets": source}))[0]
    vectors = numpy(model.source_embedding(source))[0]
    np.testing.assert_allclose(hidden, vectors * 0.5 ** np.array([[4], [5], [6]]), rtol=1e-5)


@pytest.mark.parametrize(("tap", "is_read"), [(0, True), (1, False), (2, False)])
def test_the_word_before_stands_on_the_tape_at_its_own_position(tap, is_read):
    """Gates that are closed make the memory tanh of what the candidate reads: the tape one back, here, one ahead."""
    model = silenced()
    unit, targets = model.decoder.units[0], np.array([[5, 9, 1]], np.int32)
    unit.gates_bias.assign([0.0] * 3 + [-9.0] * 3)
    kernel = np.zeros(unit.candidate_kernel.shape)
    kernel[tap, 0, 3:] = np.eye(3)
    unit.candidate_kernel.assign(kernel)
    hidden = numpy(model.body({"inputs": np.array([[4, 7, 1]], np.int32), "targets": targets}))[0]
    before = np.concatenate([np.zeros((1, 3)), numpy(model.target_embedding(targets))[0, :2]])
    np.testing.assert_allclose(hidden, np.tanh(before) if is_read else np.zeros((3, 3)), rtol=1e-5, atol=1e-7)


def test_words_beyond_the_memory_are_written_by_its_last_position_and_not_kept():
    """Of a source of two positions: whatever the third word was, what follows is the same."""
    model = tiny(unfolding_factor=1.0, unfolding_offset=0)
    inputs = padded([[4, 1], [4, 1]], 6)
    logits = numpy(model({"inputs": inputs, "targets": padded([[5, 6, 7, 8, 1], [5, 6, 9, 8, 1]])}))
    np.testing.assert_array_equal(logits[0], logits[1])
    logits = numpy(model({"inputs": inputs, "targets": padded([[5, 6, 7, 8, 1], [5, 3, 7, 8, 1]])}))
    assert (np.abs(logits[0] - logits[1]).max(axis=1) > 1e-4).tolist() == [False, False, True, True, True]


def test_a_word_of_the_markovian_one_depends_on_the_word_before_it_and_on_no_other():
    model, inputs = tiny(model_class=MarkovianNeuralGpu), padded([[4, 7, 1], [4, 7, 1]])
    logits = numpy(model({"inputs": inputs, "targets": padded([[5, 6, 7, 8, 1], [5, 3, 7, 8, 1]])}))
    assert (np.abs(logits[0] - logits[1]).max(axis=1) > 1e-4).tolist() == [False, False, True, False, False]


# === Contracts ===


@pytest.mark.parametrize("model_class", REFERENCES)
def test_dropout_is_a_function_of_its_seed(model_class):
    check_dropout_follows_its_seed(tiny(model_class=model_class, dropout=0.5))


def test_each_step_of_the_decoder_drops_other_values():
    """Of 256 values a half is left after the first step, a sixteenth after the fourth."""
    model = silenced(width=256)
    model.decoder.units[0].dropout.rate = 0.5
    ids = np.array([[4, 5, 6, 1]], np.int32)
    hidden = numpy(model.body({"inputs": ids, "targets": ids}, seed=dropout_seed(1)))[0]
    np.testing.assert_allclose((hidden != 0).mean(axis=1), [1 / 2, 1 / 4, 1 / 8, 1 / 16], atol=0.13)


def test_paths_of_weights_are_a_format_and_stay():
    names = ("gates_kernel", "gates_bias", "candidate_kernel", "candidate_bias")
    assert sorted(weights_of(tiny())) == sorted(
        ["target_embedding/table", *(f"{part}/{name}" for part in ("unit_0", "decoder/unit_0") for name in names)]
    )
