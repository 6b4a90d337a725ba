"""The tensors of a foreign file, each of which must be used or marked as not needed, and the weights made of them.

Legend: L positions, D width, E channels of a layer's output.
"""

import enum
import itertools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.errors import UserError, first_few
from t2t.layers.sinusoids import sinusoids
from t2t.models.base import SequenceModel


class Tensors:
    """The tensors of a foreign file by name; `finish` checks that all have been used or dropped.

    Args:
        arrays: tensors by their names in the file.
        origin: the file or folder, for messages.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], origin: str):
        self._arrays, self.origin = dict(arrays), origin
        self._taken: set[str] = set()
        self._unused: dict[str, str] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tensors."""
        return tuple(self._arrays)

    @property
    def taken(self) -> int:
        """Number of tensors that have been used."""
        return len(self._taken)

    def take(self, name: str) -> np.ndarray:
        """Returns a tensor, floating-point ones as float32; it may be taken several times.

        Raises:
            UserError: the file has no such tensor.
        """
        if name not in self._arrays:
            raise UserError(
                f"{self.origin}: it has no tensor {name} among its {len(self._arrays)}; it is incomplete, or of "
                "another network than its configuration describes",
                "get all files of the model again",
            )
        self._taken.add(name)
        array = self._arrays[name]
        # bfloat16 and other types of ml_dtypes are of kind V
        return array.astype(np.float32) if array.dtype.kind in "fV" else array

    def rename(self, name: str, *others: str) -> None:
        """Gives a tensor that the file lacks the name that it has there, the first of `others` among its names.

        Libraries that store a tensor with several names once keep any one of them.
        """
        there = [other for other in others if other in self._arrays]
        if name not in self._arrays and there:
            self._arrays[name] = self._arrays.pop(there[0])

    def count(self, name: str) -> int:
        """Returns how many layers have a tensor, whose name has `{n}` for the index of a layer, from 0."""
        return next(n for n in itertools.count() if name.format(n=n) not in self)

    def linear(self, name: str, path: str) -> Arrays:
        """Returns the weights of a linear layer of PyTorch, `<name>.weight` (out, in) and the bias, if there is one.

        Keys are `<path>kernel`, transposed to (in, out), and `<path>bias`.
        """
        weights = {f"{path}kernel": self.take(f"{name}.weight").T}
        return weights | ({f"{path}bias": self.take(f"{name}.bias")} if f"{name}.bias" in self else {})

    def norm(self, name: str, path: str) -> Arrays:
        """Returns the weights of a norm, `<path>/gamma`, and `<path>/beta` if it has an offset."""
        weights = {f"{path}/gamma": self.take(f"{name}.weight")}
        return weights | ({f"{path}/beta": self.take(f"{name}.bias")} if f"{name}.bias" in self else {})

    def drop(self, name: str, why: str) -> None:
        """Marks a tensor as not needed, if the file has it."""
        if name in self._arrays:
            self._unused[name] = why

    def drop_copy(self, name: str, original: str) -> None:
        """Marks a tensor as not needed, if the file has it, after checking that it is a copy of `original`.

        Raises:
            UserError: the values differ.
        """
        copied = original in self._arrays and np.array_equal(self._arrays.get(name, ()), self._arrays[original])
        if name in self._arrays and not copied:
            raise UserError(
                f"{self.origin}: tensor {name} is not the same as {original}, which its configuration says",
                "such a model cannot be imported",
            )
        self.drop(name, f"the same as {original}")

    def finish(self) -> dict[str, str]:
        """Returns the tensors that are not needed, each with the reason.

        Raises:
            UserError: some tensors have been neither used nor dropped; the message names them.
        """
        left = sorted(self._arrays.keys() - self._taken - self._unused.keys())
        if left:
            raise UserError(
                f"{self.origin}: it has {len(left)} tensors that the model here has no place for: "
                f"{first_few(left, ', ')}",
                "this network cannot be imported",
            )
        return self._unused


_LAYOUTS = ("interleaved", "halves", "split")
_TOLERANCE = 1e-3
"""Tolerance for sinusoids: the float32 rounding error of angles at position 5,000. Layouts differ by more."""


def settings_of(table_LD: np.ndarray, most_first: int = 0) -> dict[str, Any]:
    """Returns the hparams that reproduce a table of positions: sinusoids with their layout, none, or learned positions.

    Sinusoids may start at a position up to `most_first`; the result has `first_position` if it is not 0.
    """
    length, width = table_LD.shape
    if not table_LD.any():
        return {"positions": "none"}
    for first, layout in itertools.product(range(most_first + 1), _LAYOUTS if width % 2 == 0 else ()):
        if np.abs(sinusoids(length, width, layout, first) - table_LD).max() < _TOLERANCE:
            settings = {"positions": "sinusoidal", "sinusoid_layout": layout}
            return settings | ({"first_position": first} if first else {})
    return {"positions": "learned", "max_length": length}


def one_table(encoder_LD: np.ndarray, decoder_LD: np.ndarray, origin: str) -> np.ndarray:
    """Returns the table shared by both stacks.

    Raises:
        UserError: the stacks have different tables.
    """
    if not np.array_equal(encoder_LD, decoder_LD):
        raise UserError(
            f"{origin}: encoder and decoder have different tables of positions, {encoder_LD.shape} and "
            f"{decoder_LD.shape}",
            "the models here have one for both, so it cannot be imported",
        )
    return encoder_LD


# === Modules, in both directions ===


class Kind(enum.Enum):
    """Kind of a module in transformers."""

    READS = enum.auto()
    """A linear map from width D: `weight` (E, D), `bias` (E,)."""
    WRITES = enum.auto()
    """A linear map to width D: `weight` (D, E), `bias` (D,)."""
    NORM = enum.auto()
    """`weight` and `bias`, (D,) each."""
    TABLE = enum.auto()
    """A table: `weight`, with the same layout as here."""


class MappedModule(NamedTuple):
    """A module of transformers and the corresponding weights here."""

    theirs: str
    """Name of the module, without `.weight` and `.bias`."""
    ours: str
    """Path of a table or norm, or for a linear map the prefix of `kernel` and `bias`."""
    kind: Kind


def take_parts(tensors: Tensors, parts: Iterable[MappedModule]) -> Arrays:
    """Returns the weights by our paths; raises as `Tensors.take`."""
    weights: Arrays = {}
    for part in parts:
        if part.kind == Kind.TABLE:
            weights[part.ours] = tensors.take(f"{part.theirs}.weight")
        elif part.kind == Kind.NORM:
            weights |= tensors.norm(part.theirs, part.ours)
        else:
            weights |= tensors.linear(part.theirs, part.ours)
    return weights


def part_tensors(parts: Iterable[MappedModule], weights: Arrays) -> Arrays:
    """Returns the tensors of modules, with biases only where the weights here have them."""
    tensors: Arrays = {}
    for part in parts:
        found: dict[str, np.ndarray | None]
        if part.kind == Kind.TABLE:
            found = {"weight": weights[part.ours]}
        elif part.kind == Kind.NORM:
            found = {"weight": weights[f"{part.ours}/gamma"], "bias": weights.get(f"{part.ours}/beta")}
        else:
            found = {"weight": weights[f"{part.ours}kernel"].T, "bias": weights.get(f"{part.ours}bias")}
        tensors |= {f"{part.theirs}.{name}": array for name, array in found.items() if array is not None}
    return tensors


def weights_of(model: SequenceModel) -> Arrays:
    """Returns the weights by path, without the model's name."""
    return {v.path.partition("/")[2]: np.asarray(v) for v in model.variables}


def scaled(weight: np.ndarray, factor: float) -> np.ndarray:
    """Returns the product as float32, rounded once."""
    return weight if factor == 1.0 else (weight.astype(np.float64) * factor).astype(np.float32)
