"""SliceNet: sizes of its convolutions, groups of channels, and attention by hand."""

import numpy as np
import pytest

from t2t.layers.separable_convolution import Separability, SeparableConvolution
from t2t.layers.slice_modules import Source, attend
from tests.builders import numpy


@pytest.mark.parametrize(
    ("separability", "expected"),
    [
        (Separability(), 5 * 12 + 12 * 12),
        (Separability(groups=3), 5 * 12 + 12 * 12 // 3),
        (Separability("grouped", 3), 5 * 12 * 12 // 3 + 12 * 12),
        (Separability("full"), 5 * 12 * 12),
    ],
    ids=["separable", "super-separable", "sub-separable", "full"],
)
def test_convolutions_have_as_many_weights_as_table_1_says(separability, expected):
    """k = 5, c = 12, g = 3: k c + c^2, k c + c^2 / g, k c^2 / g + c^2, k c^2."""
    layer = SeparableConvolution(12, 5, separability, name="convolution")
    layer.build((None, None, 12))
    assert sum(np.size(v) for v in layer.variables) == expected


def test_groups_of_super_separable_convolutions_do_not_meet_but_2_after_3_do():
    x_BTC = np.zeros((1, 1, 6), np.float32)
    x_BTC[..., 0] = 1.0
    seen = x_BTC
    for groups, reached in (
        (3, [True] * 2 + [False] * 4),
        (2, [True] * 3 + [False] * 3),
        (3, [True] * 4 + [False] * 2),
    ):
        layer = SeparableConvolution(6, 1, Separability(groups=groups), name="convolution")
        layer.build((None, None, 6))
        seen = numpy(layer(np.asarray(seen, np.float32)))
        assert (seen[0, 0] != 0).tolist() == reached


def test_attention_by_hand():
    """D 4, so products are halved: query 2 e_1 and keys 0, e_1 ln 3: weights 1/4 and 3/4; a third key is padding."""
    e_1 = np.array([1.0, 0.0, 0.0, 0.0], np.float32)
    hidden = np.stack([0 * e_1, np.log(3.0).astype(np.float32) * e_1, 9 * e_1])[None]
    found = attend(2 * e_1[None, None], Source(hidden, np.array([[True, True, False]])), "")
    np.testing.assert_allclose(numpy(found)[0, 0], 0.75 * np.log(3.0) * e_1, rtol=1e-6)
