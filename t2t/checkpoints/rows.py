"""Weights that have a row for each id of a vocabulary, on their way to another vocabulary."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class RowTransfer:
    """Which rows of the weights of one vocabulary are rows of those of another."""

    pairs: np.ndarray
    """(N, 2) int64: the ids of a piece, there and here."""
    there: int
    """Size of the vocabulary there."""
    here: int
    """Size of the vocabulary here."""

    def transfer_rows(self, path: str, theirs: np.ndarray, ours: np.ndarray) -> np.ndarray | None:
        """Returns our weights with their rows for the pieces that both have; None where the two do not correspond.

        `theirs` has an axis of `there` ids, `ours` one of `here` ids in its place and otherwise the same shape.
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
