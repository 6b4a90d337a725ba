"""Compares the weights of a checkpoint with the variables of a model before any is assigned.

Weights that have a row for each id of a vocabulary are transferred to another vocabulary by their rows.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from t2t.errors import UserError, first_few

Shape = tuple[int, ...]


@dataclass(frozen=True)
class TransferReport:
    """How the weights of a checkpoint match the variables of a model, by path and shape."""

    taken: tuple[str, ...]
    """Paths that both have with the same shape."""
    missing: tuple[str, ...]
    """Variables of the model without weights in the checkpoint."""
    unused: tuple[str, ...]
    """Weights without a variable in the model."""
    mismatched: Mapping[str, tuple[Shape, Shape]]
    """Path that both have -> (shape of the weights, shape of the variable), which differ."""

    @property
    def is_exact(self) -> bool:
        """Whether weights and variables have the same paths and shapes."""
        return not (self.missing or self.unused or self.mismatched)

    def __str__(self) -> str:
        total = len(self.taken) + len(self.missing) + len(self.mismatched)
        return "; ".join([f"{len(self.taken)} of {total} variables taken", *self.differences()])

    def differences(self) -> list[str]:
        """Returns a text for each kind of mismatch, naming the first few."""
        shapes = [f"{path} ({found} there, {wanted} here)" for path, (found, wanted) in self.mismatched.items()]
        kinds = (
            ("of another shape", shapes),
            ("missing from the checkpoint", self.missing),
            ("in the checkpoint only", self.unused),
        )
        return [f"{len(names)} {kind}: {first_few(names, ', ')}" for kind, names in kinds if names]


def match(weights: Mapping[str, Any], variables: Mapping[str, Shape]) -> TransferReport:
    """Compares arrays by variable path with the shapes of a model's variables by path."""
    found = {path: tuple(array.shape) for path, array in weights.items()}
    wanted = {path: tuple(shape) for path, shape in variables.items()}
    both = [path for path in wanted if path in found]
    return TransferReport(
        taken=tuple(path for path in both if found[path] == wanted[path]),
        missing=tuple(path for path in wanted if path not in found),
        unused=tuple(path for path in found if path not in wanted),
        mismatched={path: (found[path], wanted[path]) for path in both if found[path] != wanted[path]},
    )


def require_exact(weights: Mapping[str, Any], variables: Mapping[str, Shape], source: str) -> None:
    """Requires that all weights match, for resuming and decoding; `source` names the checkpoint in messages.

    Raises:
        UserError: paths or shapes differ; the message says which.
    """
    report = match(weights, variables)
    if not report.is_exact:
        raise UserError(
            f"{source} does not fit the model: {'; '.join(report.differences())}; use the model, hparams and "
            f"vocabulary it was trained with, or start a new run from it with --warm_start_from"
        )


def require_some(weights: Mapping[str, Any], variables: Mapping[str, Shape], source: str) -> TransferReport:
    """Requires that some weights match, for a warm start; `source` names the checkpoint in messages.

    Raises:
        UserError: no weight has the path and shape of a variable.
    """
    report = match(weights, variables)
    if not report.taken:
        raise UserError(
            f"{source}: none of its weights fits the model: {'; '.join(report.differences())}; "
            f"choose a checkpoint of a model of this kind and size, or leave it out"
        )
    return report


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
