"""Packed batches: rows of one length, each with several examples one after the other.

Legend: N examples, F sequence features, O open rows, B rows of a batch, L their length.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from t2t.data.reading.batching import Batch
from t2t.data.reading.fixed_shapes import FixedShapes
from t2t.data.reading.reader import SequenceLengths, SplitReader
from t2t.errors import UserError
from t2t.specs import TARGETS
from t2t.specs.features import FeatureKind

OPEN_ROWS = 64
"""Rows that are open for more examples: more rows mean less padding, but more time to place each example."""


class PackedRows(FixedShapes):
    """The only shape of packed batches: rows of L ids per feature, as many as make `batch_size` ids per side."""

    @classmethod
    def for_features(cls, names: Iterable[str], length: int, batch_size: int) -> "PackedRows":
        """Returns the shape for rows of `length` ids of the features of these names."""
        names = tuple(names)
        others = (length,) if any(name != TARGETS for name in names) else (0,)
        return cls(names, ((length, others),), batch_size)

    def cut_batches(self, indices: np.ndarray, lengths: Mapping[str, np.ndarray]) -> list[Batch]:
        """Packs examples into batches, each example in exactly one.

        `indices` and each of `lengths` are (N,); no length is above that of the rows.
        """
        if not len(indices):
            return []
        (rows, widths), *_ = self.every()
        row_N = best_fit(np.stack(list(lengths.values())), max(widths.values()))
        order = np.argsort(row_N, kind="stable")
        ends = np.searchsorted(row_N[order], np.arange(rows, row_N.max() + 1, rows))
        return [Batch(indices[some], widths, rows, row_of_example=row_N[some] % rows) for some in np.split(order, ends)]


def best_fit(sizes_FN: np.ndarray, capacity: int) -> np.ndarray:
    """Returns the row of each example, (N,) from 0: the fullest open row that has room for it, or else a new one.

    Rows have room for `capacity` ids of each feature; no example has more. There are `OPEN_ROWS` open rows: to open a
    new one, the fullest is closed.
    """
    free_FO = np.zeros((len(sizes_FN), OPEN_ROWS), np.int64)
    number_O = np.zeros(OPEN_ROWS, np.int64)
    row_N, rows = np.zeros(sizes_FN.shape[1], np.int64), 0
    for n, size_F in enumerate(sizes_FN.T):
        total_O = free_FO.sum(axis=0)
        fits_O = (free_FO >= size_F[:, None]).all(axis=0)
        if fits_O.any():
            chosen = int(np.where(fits_O, total_O, np.iinfo(np.int64).max).argmin())
        else:
            chosen = int(total_O.argmin())
            free_FO[:, chosen], number_O[chosen] = capacity, rows
            rows += 1
        free_FO[:, chosen] -= size_F
        row_N[n] = number_O[chosen]
    return row_N


def pack_ids(
    values: np.ndarray, lengths: np.ndarray, row_of_example: np.ndarray, rows: int, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns packed ids and the position of each in its example, (B, L) int32 each, zeros after the last example.

    Args:
        values: concatenated ids of all examples.
        lengths: (N,) of the examples.
        row_of_example: (N,) the row of each example, ascending.
        rows: B.
        width: L.
    """
    starts = np.cumsum(lengths) - lengths
    in_row = starts - starts[np.searchsorted(row_of_example, row_of_example)]
    positions = np.arange(len(values)) - np.repeat(starts, lengths)
    where = np.repeat(row_of_example * width + in_row, lengths) + positions
    packed = np.zeros((2, rows * width), np.int32)
    packed[:, where] = values, positions
    ids, position = packed.reshape(2, rows, width)
    return ids, position


def check_packing(reader: SplitReader, columns: Mapping[str, str], length: int, lengths: SequenceLengths) -> None:
    """Raises UserError if a feature is not a sequence of ids, or an example does not fit into a row of `length` ids."""
    others = [name for name, stored in columns.items() if reader.features[stored].kind != FeatureKind.TOKENS]
    if others:
        raise UserError(
            f"{reader.problem} has features that are not sequences of ids ({', '.join(sorted(others))})",
            "set packed_length=0",
            hparam="packed_length",
            value=length,
        )
    longest = max(lengths.longest.values())
    if longest > length:
        raise UserError(
            f"the longest training example of {reader.problem} has {longest} ids",
            f"set packed_length={longest} or higher, or max_length={length}",
            hparam="packed_length",
            value=length,
        )
