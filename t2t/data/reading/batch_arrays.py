"""Batches as numpy arrays: read from a split and padded with zeros, or made up, of the most extreme shapes of a split.

Letters: B rows of a batch, L its padded length.
"""

from collections.abc import Collection, Mapping

import numpy as np

from t2t.data.columns import batch_dtype, length_unit, pad
from t2t.data.reading.batching import Batch
from t2t.data.reading.fixed_shapes import FixedShapes
from t2t.data.reading.packing import PackedRows, pack_ids
from t2t.data.reading.reader import SequenceLengths, SplitReader
from t2t.specs import POSITIONS

Arrays = dict[str, np.ndarray]
"""Feature name to (B, L) int32 for tokens, (B,) int32 for labels, (B, height, width, channels) uint8 for images, ..."""


def read_batch(reader: SplitReader, batch: Batch, columns: Mapping[str, str]) -> Arrays:
    """Returns the arrays of a batch; its rows without an example are zeros."""
    arrays = {}
    for name, stored in columns.items():
        if batch.row_of_example is not None:
            values, lengths = reader.read(batch.indices, stored)
            arrays[name], arrays[POSITIONS[name]] = pack_ids(
                values, lengths, batch.row_of_example, batch.rows, batch.widths[name]
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


def extreme_batches(
    reader: SplitReader,
    columns: Mapping[str, str] | None,
    batch_size: int,
    max_length: int,
    shapes: FixedShapes | None = None,
    resized: Collection[str] = (),
    every_shape: bool = False,
) -> list[Arrays]:
    """Returns dummy batches of a split's extreme shapes: its longest sequences, and its shortest with most rows.

    Args:
        reader: of the split.
        columns: as in `TrainingBatches`.
        batch_size: padded tokens per side, or examples if no feature is a sequence.
        max_length: of sequences.
        shapes: the only shapes that occur; None for any.
        resized: stored features that may have any length up to `max_length`, see `TrainingBatches.resized`.
        every_shape: whether to return one batch of each of `shapes`, the extreme ones first.
    """
    names = columns or {name: name for name in reader.features}
    if shapes is not None:
        return [
            {name: _dummy_feature(reader, names[name], rows, width) for name, width in widths.items()}
            | (_dummy_positions(rows, widths) if isinstance(shapes, PackedRows) else {})
            for rows, widths in (shapes.every() if every_shape else shapes.extremes())
        ]
    sequences = SequenceLengths(reader, names, max_length, resized)
    longest = max(sequences.longest.values(), default=1)
    blocks = () if resized else sequences.in_blocks()
    shortest = min((int(lengths.min()) for block in blocks for lengths in block.values()), default=1)
    batches = []
    for width in sorted({longest, max(1, min(shortest, longest))}, reverse=True):
        rows = max(1, batch_size // width) if sequences.columns else batch_size
        rows = min(rows, len(reader))
        single = {n: reader.single(np.zeros(rows, np.int64), s) for n, s in names.items() if not reader.is_sequence(s)}
        widths = {name: min(width, longest) for name, longest in sequences.longest.items()}
        batches.append({name: _dummy_feature(reader, names[name], rows, widths[name]) for name in widths} | single)
    return batches


def _dummy_feature(reader: SplitReader, stored: str, rows: int, width: int) -> np.ndarray:
    spec = reader.features[stored]
    shape = (rows, width * length_unit(spec), *spec.shape)
    dtype = batch_dtype(spec)
    return np.full(shape, 0.5 if dtype.kind == "f" else 2, dtype)


def _dummy_positions(rows: int, widths: Mapping[str, int]) -> Arrays:
    return {POSITIONS[name]: np.tile(np.arange(width, dtype=np.int32), (rows, 1)) for name, width in widths.items()}
