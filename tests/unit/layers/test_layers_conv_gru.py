"""Convolutional recurrences.

Legend: B batch, P positions, R rows of the state, C channels.
"""

import numpy as np
import pytest
from keras import ops

from t2t.layers.conv_gru import DiagonalConvGru, unrolled
from t2t.layers.loops import counted_loops
from tests.builders import numpy


@pytest.mark.parametrize("rows", [1, 2])
def test_turns_after_the_last_step_change_nothing(rows):
    rng = np.random.default_rng(0)
    unit = DiagonalConvGru(6, rows, 3, 0.0)
    unit.build((None, None, rows, 6))
    for variable in unit.variables:
        variable.assign(rng.normal(size=variable.shape))
    start_BPRC = ops.convert_to_tensor(rng.normal(size=(3, 8, rows, 6)).astype(np.float32))
    keep_BP = ops.convert_to_tensor(np.arange(8) < np.array([[2], [5], [0]]))  # five steps at most, eight positions
    state, cost = unrolled([unit], start_BPRC, keep_BP, steps_per_position=1)
    with counted_loops():
        counted, counted_cost = unrolled([unit], start_BPRC, keep_BP, steps_per_position=1)
    np.testing.assert_array_equal(numpy(counted), numpy(state))
    assert float(counted_cost) == float(cost) > 0
