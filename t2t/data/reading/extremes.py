"""Dummy batches of the most extreme shapes of a split, to find out at once whether they fit into memory."""

from collections.abc import Collection, Mapping

import numpy as np

from t2t.data.columns import batch_dtype, item_shape, length_unit
from t2t.data.reading.fixed_shapes import FixedShapes
from t2t.data.reading.lengths import lengths_in_blocks, longest_of
from t2t.data.reading.packing import PackedRows
from t2t.data.reading.reader import SplitReader
from t2t.specs.constants import POSITIONS

Features = dict[str, np.ndarray]


def extreme_batches(
    reader: SplitReader,
    columns: Mapping[str, str] | None,
    batch_size: int,
    max_length: int,
    shapes: FixedShapes | None = None,
    resized: Collection[str] = (),
    every_shape: bool = False,
) -> list[Features]:
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
    sequences = [name for name, stored in names.items() if reader.is_sequence(stored)]
    longest_by_name = {name: longest_of(reader, names[name], max_length, resized) for name in sequences}
    longest = max(longest_by_name.values(), default=1)
    blocks = lengths_in_blocks(reader, {} if resized else {name: names[name] for name in sequences})
    shortest = min((int(lengths.min()) for block in blocks for lengths in block.values()), default=1)
    batches = []
    for width in sorted({longest, max(1, min(shortest, longest))}, reverse=True):
        rows = max(1, batch_size // width) if sequences else batch_size
        rows = min(rows, len(reader))
        single = {n: reader.single(np.zeros(rows, np.int64), s) for n, s in names.items() if n not in sequences}
        widths = {name: min(width, longest_by_name[name]) for name in sequences}
        batches.append({name: _dummy_feature(reader, names[name], rows, widths[name]) for name in sequences} | single)
    return batches


def _dummy_feature(reader: SplitReader, stored: str, rows: int, width: int) -> np.ndarray:
    """Returns rows of a sequence feature without padding."""
    spec = reader.features[stored]
    shape = (rows, width * length_unit(spec), *item_shape(spec))
    dtype = batch_dtype(spec)
    return np.full(shape, 0.5 if dtype.kind == "f" else 2, dtype)


def _dummy_positions(rows: int, widths: Mapping[str, int]) -> Features:
    """Returns the positions for rows with one example each."""
    return {POSITIONS[name]: np.tile(np.arange(width, dtype=np.int32), (rows, 1)) for name, width in widths.items()}
