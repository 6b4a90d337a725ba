"""Tensors: their types; sizes that stay int where they are static; rows that are reordered by beam.

Legend: B sentences, K beams of each, N = B * K rows in sentence-major order, J chosen beams of each sentence.
"""

from collections.abc import Mapping
from typing import Protocol, TypedDict, TypeVar, Union, runtime_checkable

import keras
from keras import ops


@runtime_checkable
class Tensor(Protocol):
    """What layers use of a tensor of any backend, besides the functions of `keras.ops`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes; where they are unknown when the program is built, `keras.ops.shape` has them."""

    @property
    def dtype(self) -> str:
        """Its type, comparable with a name, and what `keras.ops.cast` takes."""

    def __getitem__(self, key: object, /) -> "Tensor": ...

    def __add__(self, other: "Tensor | float", /) -> "Tensor": ...

    def __radd__(self, other: float, /) -> "Tensor": ...

    def __sub__(self, other: "Tensor | float", /) -> "Tensor": ...

    def __rsub__(self, other: float, /) -> "Tensor": ...

    def __mul__(self, other: "Tensor | float", /) -> "Tensor": ...

    def __rmul__(self, other: float, /) -> "Tensor": ...

    def __truediv__(self, other: "Tensor | float", /) -> "Tensor": ...

    def __floordiv__(self, other: "Tensor | int", /) -> "Tensor": ...

    def __mod__(self, other: "Tensor | int", /) -> "Tensor": ...

    def __lt__(self, other: "Tensor | float", /) -> "Tensor": ...

    def __le__(self, other: "Tensor | float", /) -> "Tensor": ...

    def __gt__(self, other: "Tensor | float", /) -> "Tensor": ...

    def __ge__(self, other: "Tensor | float", /) -> "Tensor": ...


Size = Union[int, Tensor]  # noqa: UP007 - a protocol with quoted members
"""A number of rows or positions, int or () int32."""
Features = Mapping[str, Tensor]
"""A batch: the arrays of each feature, and where rows are packed, of positions."""
Structure = TypeVar("Structure")
"""A nested structure of tensors."""


class Named(TypedDict, total=False):
    """The arguments that every layer takes."""

    name: str
    dtype: object


def at_least(least: int, size: Size) -> Size:
    """Returns a size, or `least` where it is smaller."""
    found: Size = max(size, least) if isinstance(size, int) else ops.maximum(size, least)
    return found


def missing_to_multiple(size: Size, of: int) -> Size:
    """Returns what a size of 0 or more lacks to a multiple of `of`."""
    # Not `-size % of`: converted programs compute negative remainders of negative numbers.
    return (of - size % of) % of


def at_most(most: Size, size: Size) -> Size:
    """Returns a size, or `most` where it is larger."""
    found: Size = min(size, most) if isinstance(size, int) and isinstance(most, int) else ops.minimum(size, most)
    return found


def gather_beams(beams: Tensor, chosen: Tensor) -> Tensor:
    """Picks beams of each sentence: returns `result[b, j] = beams[b, chosen[b, j]]`, (B, J, ...).

    Args:
        beams: (B, K, ...) any dtype.
        chosen: (B, J) int32, indices of beams, each in [0, K).
    """
    shape = ops.shape(beams)
    rows = ops.reshape(beams, (shape[0] * shape[1], *shape[2:]))
    found: Tensor = ops.take(rows, _row_numbers(chosen, shape[1]), axis=0)
    return found


def repeat_sentences(structure: Structure, rows: Size) -> Structure:
    """Repeats each row of each tensor for the beams of its sentence: (B, ...) to (N, ...), N being `rows`."""

    def repeat(leaf):
        return ops.take(leaf, ops.arange(rows) // (rows // ops.shape(leaf)[0]), axis=0)

    found: Structure = keras.tree.map_structure(repeat, structure)
    return found


def reorder_rows(structure: Structure, beams: Tensor) -> Structure:
    """Reorders the rows of a nested structure of tensors (N, ...), with one gather per tensor.

    `beams` (B, K) int32 says which beam of the same sentence each beam continues.
    """
    rows_N = ops.reshape(_row_numbers(beams, ops.shape(beams)[1]), (-1,))
    found: Structure = keras.tree.map_structure(lambda leaf: ops.take(leaf, rows_N, axis=0), structure)
    return found


def _row_numbers(chosen: Tensor, beam_size: int) -> Tensor:
    """Converts indices of beams, (B, J) int32, to indices of rows in (N, ...)."""
    first_rows_B = ops.arange(ops.shape(chosen)[0], dtype="int32") * beam_size
    return chosen + ops.expand_dims(first_rows_B, 1)
