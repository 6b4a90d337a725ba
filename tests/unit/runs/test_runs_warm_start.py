"""Optimizer state in a warm start from another vocabulary."""

from types import SimpleNamespace

import numpy as np

from t2t.checkpoints.checkpoint import Checkpoint
from t2t.checkpoints.rows import RowTransfer
from t2t.runs import warm_start


def test_a_slot_that_has_no_row_for_each_piece_begins_empty():
    """Adafactor has a slot of column statistics of a table, which has no row for each piece."""
    own = {"table": {"rows": np.zeros(3), "columns": np.zeros(8)}}
    iterations = SimpleNamespace(path="iterations")
    step = SimpleNamespace(optimizer=SimpleNamespace(iterations=iterations, name="adafactor"))
    theirs = {"iterations": np.array(5), "rows": np.array([7.0, 9.0]), "columns": np.ones(8)}
    checkpoint = Checkpoint(step=5, model={}, optimizer=theirs)
    rows = {"table": RowTransfer(np.array([[1, 2]]), there=2, here=3)}
    found, updates = warm_start._slots_of(step, own, checkpoint, SimpleNamespace(taken=()), rows, "asked")
    assert updates == 5
    assert found.keys() == {"rows"}
    np.testing.assert_array_equal(found["rows"][1], [0.0, 0.0, 9.0])
