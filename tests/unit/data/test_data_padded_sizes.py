"""Arrays are padded to few sizes."""

import numpy as np

from t2t.data.padded_sizes import pad_to, padded_size


def test_steps_are_a_part_of_the_power_of_two_below():
    assert [padded_size(size, 8, 8) for size in (1, 8, 9, 64, 65, 130, 1000)] == [8, 8, 16, 64, 72, 144, 1024]
    assert [padded_size(size, 2) for size in (1, 2, 3, 5, 7, 9, 13)] == [1, 2, 3, 6, 8, 12, 16]
    assert len({padded_size(size, 8, 8) for size in range(1, 1025)}) == 8 + 4 * 8


def test_what_is_added_is_zero():
    padded = pad_to(np.ones((2, 3), np.int32), (3, 5))
    np.testing.assert_array_equal(padded, [[1, 1, 1, 0, 0], [1, 1, 1, 0, 0], [0] * 5])
