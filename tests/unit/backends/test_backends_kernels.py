"""What attention and searches compute in compiled functions, which may have other operations for the steps of a search.

Legend: B batch, H heads, T positions, S keys, C channels, K beams.
"""

import ml_dtypes  # noqa: F401 - numpy's bfloat16
import numpy as np
import pytest
from keras import KerasTensor, ops

from t2t.backends import backend
from t2t.layers.beams import gather_beams, reorder_rows, select_sentences
from t2t.layers.mode import current_mode

B, H, S, C = 3, 2, 5, 4


def attended(query_BTHC, keys_BHSC, values_BHSC):
    """Returns attention as its layer computes it, (B, T, H, C)."""
    kernels = current_mode().kernels
    scores_BHTS = kernels.product(kernels.exchange(query_BTHC), keys_BHSC, transposed=True)
    return kernels.exchange(kernels.product(kernels.softmax(scores_BHTS), values_BHSC))


@pytest.mark.parametrize("positions", [1, 4, None])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("bfloat16", 0.03)])
def test_attention_is_the_same_for_known_and_unknown_numbers_of_positions(positions, dtype, tolerance):
    rng = np.random.default_rng(0)
    sizes = (None, positions, H, C), (None, H, None, C), (None, H, None, C)
    compiled = backend().compile(attended, tuple(KerasTensor(shape, dtype) for shape in sizes), None)
    query, keys, values = (
        rng.normal(size=shape).astype(dtype) for shape in ((B, positions or 3, H, C), (B, H, S, C), (B, H, S, C))
    )
    powers = np.exp(np.einsum("bthc,bhsc->bhts", query, keys, dtype="float64"))
    expected = np.einsum("bhts,bhsc->bthc", powers / powers.sum(-1, keepdims=True), values, dtype="float64")
    np.testing.assert_allclose(np.asarray(compiled(query, keys, values)).astype("float64"), expected, atol=tolerance)


def test_beams_and_sentences_are_chosen_as_numpy_does():
    beams_BKC = np.random.default_rng(0).normal(size=(B, 3, C)).astype("float32")
    chosen_BK, chosen_J = np.array([[2, 0, 0], [1, 1, 2], [0, 2, 1]], "int32"), np.array([2, 0], "int32")

    def choose(beams, chosen, sentences):
        rows = ops.reshape(beams, (-1, C))
        return gather_beams(beams, chosen), reorder_rows(rows, chosen), select_sentences(rows, sentences, B)

    sizes = ((None, 3, C), "float32"), ((None, 3), "int32"), ((None,), "int32")
    compiled = backend().compile(choose, tuple(KerasTensor(*one) for one in sizes), None)
    gathered, reordered, selected = map(np.asarray, compiled(beams_BKC, chosen_BK, chosen_J))
    expected = np.take_along_axis(beams_BKC, chosen_BK[:, :, None], axis=1)
    np.testing.assert_array_equal(gathered, expected)
    np.testing.assert_array_equal(reordered, expected.reshape(-1, C))
    np.testing.assert_array_equal(selected, beams_BKC[chosen_J].reshape(-1, C))
