"""Rows of weights that are transferred from one vocabulary to another."""

import numpy as np

from t2t.checkpoints.rows import RowTransfer

MOVES = RowTransfer(np.array([[0, 0], [3, 1]]), there=4, here=3)


def test_rows_of_a_table_and_of_a_bias():
    theirs, ours = np.arange(8.0).reshape(4, 2), -np.ones((3, 2))
    np.testing.assert_array_equal(MOVES.transfer_rows("a/table", theirs, ours), [[0, 1], [6, 7], [-1, -1]])
    np.testing.assert_array_equal(MOVES.transfer_rows("a/bias", np.arange(4.0), np.zeros(3)), [0, 3, 0])
    np.testing.assert_array_equal(ours, -1.0)


def test_columns_of_a_kernel_also_where_it_is_square():
    theirs, ours = np.arange(12.0).reshape(3, 4), np.zeros((3, 3))
    np.testing.assert_array_equal(MOVES.transfer_rows("a/kernel", theirs, ours), [[0, 3, 0], [4, 7, 0], [8, 11, 0]])


def test_other_shapes_have_none():
    assert MOVES.transfer_rows("a/table", np.zeros((4, 2)), np.zeros((3, 5))) is None
    assert MOVES.transfer_rows("a/table", np.zeros((5, 2)), np.zeros((3, 2))) is None
