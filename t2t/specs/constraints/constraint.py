"""Base class of the constraints on the output for an input."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self


class OutputConstraint(ABC):
    """A set of allowed outputs; the outputs of a call may have different ones, all trees or all finite automata."""

    @abstractmethod
    def shortest(self, prefix: Sequence[int] = ()) -> int | None:
        """Returns the length in ids, end of sequence included, of the shortest output with a prefix; None for none."""

    @abstractmethod
    def fitted(self, longest: int) -> Self:
        """Returns the constraint, loosened as far as possible for outputs of at most `longest` ids.

        `longest` includes the end of sequence and is at least 1.
        """
