"""Dummy batches of the most extreme shapes that a split gives, to find out at once whether they fit into memory."""

from collections.abc import Mapping

import numpy as np

from t2t.data.reader import SplitReader


def extreme_batches(
    reader: SplitReader, columns: Mapping[str, str] | None, batch_size: int, max_length: int
) -> list[dict[str, np.ndarray]]:
    """Returns dummy batches of a split's extreme shapes: its longest sequences, and its shortest with most rows."""
    names = columns or {name: name for name in reader.features}
    sequences = [name for name, stored in names.items() if reader.is_sequence(stored)]
    longest = min(max((reader.longest[names[name]] for name in sequences), default=1), max_length)
    shortest = min((int(reader.lengths(names[name]).min()) for name in sequences), default=1)
    batches = []
    for width in sorted({longest, max(1, shortest)}, reverse=True):
        rows = max(1, batch_size // width) if sequences else batch_size
        rows = min(rows, len(reader))
        single = {n: reader.single(np.zeros(rows, np.int64), s) for n, s in names.items() if n not in sequences}
        batches.append({name: np.full((rows, width), 2, np.int32) for name in sequences} | single)
    return batches
