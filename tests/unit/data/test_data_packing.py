"""Packed batches: examples by hand, every example exactly once, and features that cannot be packed."""

import numpy as np

from t2t.data.reading.batch_arrays import extreme_batches
from t2t.data.reading.packing import PackedRows, best_fit, pack_ids
from t2t.data.reading.training_batches import TrainingBatches
from tests.errors import refused
from tests.generated import epoch_of, examples_of


def made(reader, **settings):
    return TrainingBatches(reader, seed=3, batch_size=120, window=70, **{"packed_length": 40, **settings})


def unpacked(batch):
    """Returns the pairs in a packed batch; an example begins at each position 0."""
    found = []
    for row in range(len(batch["targets"])):
        sides = []
        for name in ("inputs", "targets"):
            ids, positions = batch[name][row], batch[f"{name}_positions"][row]
            count = int((ids != 0).sum())
            assert (ids[count:] == 0).all()
            starts = np.flatnonzero(positions[:count] == 0)
            parts = np.split(ids[:count], starts[1:]) if count else []
            assert positions[:count].tolist() == [i for part in parts for i in range(len(part))]
            sides.append([part.tolist() for part in parts])
        found += zip(*sides, strict=True)
    return found


def test_rows_by_hand():
    """Examples of 2, 3 and 1 ids in two rows of 6: two in the first row, one in the second."""
    ids, positions = pack_ids(np.array([5, 1, 6, 7, 1, 1]), np.array([2, 3, 1]), np.array([0, 0, 1]), 2, 6)
    assert ids.tolist() == [[5, 1, 6, 7, 1, 0], [1, 0, 0, 0, 0, 0]]
    assert positions.tolist() == [[0, 1, 0, 1, 2, 0], [0] * 6]
    # Targets alone are packed, too.
    rows = PackedRows.for_features(["targets"], 10, 20)
    (batch,) = rows.cut_batches(np.array([7, 8, 9]), {"targets": np.array([6, 7, 4])})
    assert (batch.indices.tolist(), batch.row_of_example.tolist(), batch.rows) == ([7, 9, 8], [0, 0, 1], 2)
    assert batch.widths == {"targets": 10}


def test_the_fullest_row_with_room_takes_an_example_and_little_is_padded():
    """Rows of 10 ids: 7 does not fit next to 6; 3 fills the row of 7, 4 that of 6, and 1 starts a third row."""
    assert best_fit(np.array([[6, 7, 3, 4, 1]]), 10).tolist() == [0, 1, 1, 0, 2]
    # Both features must fit.
    assert best_fit(np.array([[6, 4, 4], [5, 9, 5]]), 10).tolist() == [0, 1, 0]
    sizes = np.random.default_rng(0).integers(3, 60, (2, 3000))
    row = best_fit(sizes, 256)
    used = np.stack([np.bincount(row, weights=size) for size in sizes])
    assert used.max() <= 256
    # Independent lengths of the two sides are the hardest to pack.
    assert used.sum() / (2 * 256 * used.shape[1]) > 0.9


def test_an_epoch_holds_every_example_once_in_rows_of_one_shape_which_the_dummy_batch_has(digits_train):
    batches = made(digits_train)
    (dummy,) = extreme_batches(digits_train, None, 120, 256, batches.shapes, every_shape=True)
    shapes = {name: ((3, 40), array.dtype) for name, array in dummy.items()}
    found = []
    for batch in (dummy, *epoch_of(batches)):
        assert {name: (array.shape, array.dtype) for name, array in batch.items()} == shapes
        found += unpacked(batch) if batch is not dummy else []
    assert sorted(found) == sorted(examples_of(digits_train))
    with refused("packed_length=12", "digits", 21, "packed_length=21", "max_length=12"):
        made(digits_train, packed_length=12)  # some examples are longer than a row
