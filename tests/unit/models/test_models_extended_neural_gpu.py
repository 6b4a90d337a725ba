"""The Extended and the Markovian Neural GPU by hand. Legend: B batch, P positions, T target length, D width."""

import numpy as np
import pytest

from tests.builders import numpy, padded
from tests.models import dropout_seed
from tests.unit.models.references import tiny


def silenced(width=3):
    """A model with one memory position per word, whose gated units have zero weights and biases."""
    model = tiny("extended_neural_gpu", hidden_size=width, unfolding_factor=1.0, unfolding_offset=0)
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
    model = tiny("extended_neural_gpu", unfolding_factor=1.0, unfolding_offset=0)
    inputs = padded([[4, 1], [4, 1]], 6)
    logits = numpy(model({"inputs": inputs, "targets": padded([[5, 6, 7, 8, 1], [5, 6, 9, 8, 1]])}))
    np.testing.assert_array_equal(logits[0], logits[1])
    logits = numpy(model({"inputs": inputs, "targets": padded([[5, 6, 7, 8, 1], [5, 3, 7, 8, 1]])}))
    assert (np.abs(logits[0] - logits[1]).max(axis=1) > 1e-4).tolist() == [False, False, True, True, True]


def test_a_word_of_the_markovian_one_depends_on_the_word_before_it_and_on_no_other():
    model, inputs = tiny("markovian_neural_gpu"), padded([[4, 7, 1], [4, 7, 1]])
    logits = numpy(model({"inputs": inputs, "targets": padded([[5, 6, 7, 8, 1], [5, 3, 7, 8, 1]])}))
    assert (np.abs(logits[0] - logits[1]).max(axis=1) > 1e-4).tolist() == [False, False, True, False, False]


def test_each_step_of_the_decoder_drops_other_values():
    """Of 256 values a half is left after the first step, a sixteenth after the fourth."""
    model = silenced(width=256)
    model.decoder.units[0].dropout.rate = 0.5
    ids = np.array([[4, 5, 6, 1]], np.int32)
    hidden = numpy(model.body({"inputs": ids, "targets": ids}, seed=dropout_seed(1)))[0]
    np.testing.assert_allclose((hidden != 0).mean(axis=1), [1 / 2, 1 / 4, 1 / 8, 1 / 16], atol=0.13)
