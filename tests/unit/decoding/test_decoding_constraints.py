"""What may be written next, by hand. Legend: N rows, P prefix length, V vocabulary."""

import numpy as np

from t2t.decoding.constraints import forced, never_padding

LOG_PROBS_NV = np.log(np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]], np.float32))


def test_padding_is_never_written_and_the_others_stay():
    found = np.asarray(never_padding(LOG_PROBS_NV))
    assert (found[:, 0] <= -1e9).all()
    np.testing.assert_array_equal(found[:, 1:], LOG_PROBS_NV[:, 1:])


def test_a_prefix_is_certain_while_it_goes_on():
    prefix_NP = np.array([[2, 3], [1, 0]], np.int32)
    for position, wanted in ((0, {0: 2, 1: 1}), (1, {0: 3}), (2, {}), (9, {})):
        found = np.asarray(forced(LOG_PROBS_NV, prefix_NP, position))
        for row in range(2):
            if row in wanted:
                assert found[row, wanted[row]] == 0.0
                assert (np.delete(found[row], wanted[row]) <= -1e9).all()
            else:
                np.testing.assert_array_equal(found[row], LOG_PROBS_NV[row])


def test_without_prefixes_nothing_is_changed():
    assert forced(LOG_PROBS_NV, None, 0) is LOG_PROBS_NV
