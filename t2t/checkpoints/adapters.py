"""Checkpoints of adapters: they hold only the adapters, and name their base, the checkpoint that these change."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.checkpoints.checkpoint import ADAPTERS, EMA, MODEL, Checkpoint, fingerprint_of, is_checkpoint, read_checkpoint
from t2t.errors import UserError
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.files.paths import local_path, to_record
from t2t.specs import ADAPTER_FACTORS


@dataclasses.dataclass(frozen=True)
class AdapterBase:
    """The checkpoint whose weights adapters change."""

    path: str
    """Its folder, an absolute path or an address in an object store."""
    fingerprint: str
    """See `Checkpoint.fingerprint`."""
    scale: float
    """s of W + s A B, see `t2t.layers.adapters`."""

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, scale: float) -> Self:
        """Returns a checkpoint, read from its folder, as the base of adapters."""
        assert checkpoint.folder is not None, "it has been read from its folder"
        return cls(to_record(checkpoint.folder), checkpoint.fingerprint, scale)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self | None:
        """Returns the base that a checkpoint's state names; None where the checkpoint holds whole weights."""
        return cls(**state[ADAPTERS]) if state.get(ADAPTERS) else None

    def to_state(self) -> dict[str, Any]:
        """Returns the entry of a checkpoint's state."""
        return {ADAPTERS: dataclasses.asdict(self)}

    def load(self, adapted: Path | None) -> Arrays:
        """Returns the base's weights by variable path; `adapted` is the checkpoint that needs them.

        Raises:
            UserError: the base is missing, damaged, or has changed.
        """
        folder = local_path(self.path)
        with os_errors_as_machine_errors(f"cannot read checkpoint {folder}"):
            found = fingerprint_of(folder) if is_checkpoint(folder) else ""
        if found != self.fingerprint:
            wrong = f"has changed (fingerprint {found:.12}, was {self.fingerprint:.12})" if found else "is missing"
            raise UserError(
                f"checkpoint {adapted} holds adapters for the weights of {folder}, which {wrong}",
                "restore that from a copy, or adapt another checkpoint in a new --output_dir",
            )
        return merge_base(read_checkpoint(folder, (MODEL, EMA))).weights


def merge_base(checkpoint: Checkpoint) -> Checkpoint:
    """Returns a checkpoint of adapters with its adapters merged into the base's weights; any other unchanged.

    Raises:
        UserError: see `AdapterBase.load`; or the adapters do not fit the base.
    """
    base = AdapterBase.from_state(checkpoint.state)
    if base is None:
        return checkpoint
    weights, factors = base.load(checkpoint.folder), checkpoint.weights
    check_fits(checkpoint, weights)
    return dataclasses.replace(checkpoint, model=merge_adapters(weights, factors, base.scale), ema=None)


def merge_adapters(weights: Mapping[str, np.ndarray], factors: Mapping[str, np.ndarray], scale: float) -> Arrays:
    """Returns weights by variable path, with W + s A B for each weight W that has factors A and B.

    Args:
        weights: those of the base.
        factors: A and B by `<path of the weight>/<name>`, with the names in `ADAPTER_FACTORS`.
        scale: s.
    """
    a, b = ADAPTER_FACTORS
    merged = dict(weights)
    for path in sorted({path.rpartition("/")[0] for path in factors}):
        product = np.matmul(factors[f"{path}/{a}"], factors[f"{path}/{b}"])
        merged[path] = weights[path] + product * np.float32(scale)
    return merged


def check_fits(checkpoint: Checkpoint, weights: Arrays) -> None:
    """Raises UserError if a factor lacks its weight in the base or its other factor, or their shapes do not match."""
    factors = checkpoint.weights
    a, b = ADAPTER_FACTORS
    for path in sorted({path.rpartition("/")[0] for path in factors}):
        places = {path: weights, f"{path}/{a}": factors, f"{path}/{b}": factors}
        whole, left, right = (arrays[name].shape if name in arrays else () for name, arrays in places.items())
        if len(whole) < 2 or left[:-1] != whole[:-1] or right != (*whole[:-2], *left[-1:], whole[-1]):
            raise UserError(
                f"checkpoint {checkpoint.folder}: its adapter of {path or 'nothing'} does not fit the base (shapes "
                f"{whole}, {a} {left}, {b} {right})",
                "restore the checkpoint from a copy",
            )
