"""A batch of a split as numpy arrays, padded with zeros.

Letters: B rows of a batch, L its padded length.
"""

from collections.abc import Mapping

import numpy as np

from t2t.data.columns import batch_dtype, length_unit, pad
from t2t.data.reading.batching import Batch
from t2t.data.reading.packing import pack_ids
from t2t.data.reading.reader import SplitReader
from t2t.specs.constants import POSITIONS

Arrays = dict[str, np.ndarray]
"""Feature name to (B, L) int32 for tokens, (B,) int32 for labels, (B, height, width, channels) uint8 for images, ..."""


def read_batch(reader: SplitReader, batch: Batch, columns: Mapping[str, str]) -> Arrays:
    """Returns the arrays of a batch; its rows without an example are zeros."""
    arrays = {}
    for name, stored in columns.items():
        if batch.places is not None:
            values, lengths = reader.read(batch.indices, stored)
            arrays[name], arrays[POSITIONS[name]] = pack_ids(
                values, lengths, batch.places, batch.rows, batch.widths[name]
            )
        elif name in batch.widths:
            rows = _read_rows(reader, batch.indices, stored, batch.widths[name])
            arrays[name] = np.pad(rows, [(0, max(0, batch.rows - len(rows)))] + [(0, 0)] * (rows.ndim - 1))
        else:
            arrays[name] = reader.single(batch.indices, stored)
    return arrays


def _read_rows(reader: SplitReader, indices: np.ndarray, stored: str, width: int) -> np.ndarray:
    """Reads (B, L, ...) rows; cuts sequences to L, and ends those of tokens as they ended before."""
    values, lengths = reader.read(indices, stored)
    spec = reader.features[stored]
    width *= length_unit(spec)
    rows = pad(values, lengths, max(width, int(lengths.max())), batch_dtype(spec))[:, :width]
    if end := reader.ends.get(stored):
        rows[lengths > width, -len(end) :] = end[:width]
    return np.ascontiguousarray(rows)
