"""Constraints of several sentences as a search takes them.

Legend: B sentences, S numbers of a state.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from t2t.decoding.constraints.automaton import Automaton
from t2t.decoding.constraints.tree_automaton import tree_automaton
from t2t.specs.constraints import OutputConstraint, TreeConstraint


class BatchConstraints(NamedTuple):
    """What the outputs of B sentences may be."""

    automaton: Automaton
    """Of numpy arrays, the same for all."""
    first_states: Any
    """(B, S) int32."""
    shortest: Any
    """(B,) int32: length of the shortest output of each, with its prefix, in ids with end of sequence."""

    @classmethod
    def build(
        cls,
        constraints: Sequence[OutputConstraint],
        vocab_size: int,
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> Self:
        """Returns the constraints of B sentences, all of one class.

        Args:
            constraints: at least one.
            vocab_size: of the outputs.
            prefixes: what the output of each begins with, and can; None for nothing.
        """
        trees = [constraint for constraint in constraints if isinstance(constraint, TreeConstraint)]
        assert len(trees) == len(constraints), "there are no other constraints"
        automaton, states_BS = tree_automaton(trees, vocab_size)
        given = prefixes or [()] * len(constraints)
        shortest = [one.shortest(prefix) for one, prefix in zip(constraints, given, strict=True)]
        return cls(automaton, states_BS, np.array(shortest, np.int32))

    def select(self, numbers: Any) -> Self:
        """Returns those of some of the sentences, by number."""
        return self._replace(first_states=self.first_states[numbers], shortest=self.shortest[numbers])
