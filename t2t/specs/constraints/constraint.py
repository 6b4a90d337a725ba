"""What the output for an input may be."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self


class OutputConstraint(ABC):
    """A set of outputs; constraints of one class are searched in one batch, whatever their fields."""

    @abstractmethod
    def shortest(self, prefix: Sequence[int] = ()) -> int | None:
        """Returns the length of the shortest output that begins with a prefix, in ids with end of sequence; or None."""

    @abstractmethod
    def fitted(self, longest: int) -> Self:
        """Returns what can be kept to within `longest` ids, end of sequence included, at least 1."""
