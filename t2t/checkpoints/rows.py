"""Transfers weights that have a row for each id of a vocabulary to another vocabulary."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class RowTransfer:
    """Which rows to copy from weights of the source vocabulary ("there") to weights of the new one ("here")."""

    pairs: np.ndarray
    """(N, 2) int64: the ids of a shared piece, there and here."""
    there: int
    """Size of the source vocabulary."""
    here: int
    """Size of the new vocabulary."""

    def transfer_rows(self, path: str, theirs: np.ndarray, ours: np.ndarray) -> np.ndarray | None:
        """Returns `ours` with the rows of shared pieces copied from `theirs`; None if their shapes do not correspond.

        They correspond if the vocabulary axis has `there` ids in `theirs` and `here` ids in `ours`, and all other axes
        have equal sizes.
        """
        axis = vocabulary_axis(path, ours.ndim)
        there, here = np.moveaxis(theirs, axis, 0), np.moveaxis(ours.copy(), axis, 0)
        if (len(there), len(here)) != (self.there, self.here) or there.shape[1:] != here.shape[1:]:
            return None
        here[self.pairs[:, 1]] = there[self.pairs[:, 0]]
        return np.moveaxis(here, 0, axis)


def vocabulary_axis(path: str, rank: int) -> int:
    """Returns the axis on which a weight has an entry for each id: the last of a kernel, the first of all else."""
    return rank - 1 if path.endswith("/kernel") else 0
