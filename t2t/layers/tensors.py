"""Tensors: their types; sizes that stay int where they are static; functions of rows.

Legend: N rows, D and U widths.
"""

from collections.abc import Callable, Mapping
from typing import Protocol, TypedDict, TypeVar, Union, runtime_checkable

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


def by_rows(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Returns (..., U), a function from (N, D) to (N, U) of the rows of `x` (..., D).

    With more axes TensorFlow needs many small operations for a product, and cannot join it with what follows.
    """
    sizes = list(x.shape[:-1])
    if len(sizes) == 1:
        return function(x)
    found = function(ops.reshape(x, (-1, x.shape[-1])))
    restored = [-1, *ops.shape(x)[1:-1]] if None in sizes else sizes
    rows: Tensor = ops.reshape(found, (*restored, found.shape[-1]))
    return rows
