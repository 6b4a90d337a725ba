import numpy as np

from t2t.inference.batch_sizes import min_active_size, select_active


def test_what_leaves_a_batch_and_what_stays():
    going = np.array([True, False, True, False, False, True, False, False, False])
    assert select_active(going, 0).all(), "more are going than may stay"
    assert not select_active(np.zeros(9, bool), 8).any()
    np.testing.assert_array_equal(select_active(going, 8), [1, 1, 1, 0, 0, 1, 0, 0, 0])
    np.testing.assert_array_equal(select_active(np.arange(17) < 11, 16), np.arange(17) < 16)
    assert [min_active_size(size) for size in (1, 2, 7, 14, 16, 46)] == [0, 1, 2, 4, 8, 16]
