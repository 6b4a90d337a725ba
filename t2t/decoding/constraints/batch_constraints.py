"""Constraints of several sentences as a search takes them.

Legend: B sentences, S numbers of a state.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from t2t.decoding.constraints.automaton import Automaton
from t2t.decoding.constraints.finite_automaton import FiniteAutomaton, PhraseAutomaton
from t2t.decoding.constraints.tree_automaton import tree_automaton
from t2t.specs.constraints.constraint import OutputConstraint
from t2t.specs.constraints.finite import FiniteConstraint
from t2t.specs.constraints.trees import TreeConstraint


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
            prefixes: ids that each output begins with, which its constraint must allow; None for nothing.
        """
        automaton, states_BS = _automaton_of(constraints, vocab_size)
        given = prefixes or [()] * len(constraints)
        shortest = [one.shortest(prefix) for one, prefix in zip(constraints, given, strict=True)]
        return cls(automaton, states_BS, np.array(shortest, np.int32))

    def select(self, numbers: Any) -> Self:
        """Selects the constraints of some of the sentences, by index."""
        return self._replace(first_states=self.first_states[numbers], shortest=self.shortest[numbers])


def _automaton_of(constraints: Sequence[OutputConstraint], vocab_size: int) -> tuple[Automaton, np.ndarray]:
    """Returns the automaton of some constraints, of numpy arrays, and the first state of each, (B, S) int32."""
    trees = [constraint for constraint in constraints if isinstance(constraint, TreeConstraint)]
    if len(trees) == len(constraints):
        return tree_automaton(trees, vocab_size)
    finite = [constraint for constraint in constraints if isinstance(constraint, FiniteConstraint)]
    assert len(finite) == len(constraints), "constraints of a batch are of one class"
    has_banks = any(constraint.rewards_progress for constraint in finite)
    return (PhraseAutomaton if has_banks else FiniteAutomaton).of_constraints(finite)
