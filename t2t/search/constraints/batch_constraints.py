"""Constraints of several sentences as a search takes them.

Legend: B sentences, S numbers of a state.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from t2t.errors import UserError
from t2t.search.constraints.automaton import Automaton
from t2t.search.constraints.finite_automaton import FiniteAutomaton, PhraseAutomaton
from t2t.search.constraints.tree_automaton import tree_automaton
from t2t.specs.constraints import FiniteConstraint, OutputConstraint, TreeConstraint


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
        """Returns the constraints of B sentences, all of one class; trees with the same labels.

        Args:
            constraints: at least one.
            vocab_size: of the outputs.
            prefixes: ids that each output begins with, which its constraint must allow; None for nothing.

        Raises:
            UserError: the constraints are of several classes, or trees with different labels; or they are too large.
        """
        automaton, states_BS = _automaton_of(constraints, vocab_size)
        given = prefixes or [()] * len(constraints)
        shortest = [one.shortest(prefix) for one, prefix in zip(constraints, given, strict=True)]
        return cls(automaton, states_BS, np.array(shortest, np.int32))

    def select(self, indices: Any) -> Self:
        """Selects the constraints of some of the sentences, by index."""
        return self._replace(first_states=self.first_states[indices], shortest=self.shortest[indices])


def _automaton_of(constraints: Sequence[OutputConstraint], vocab_size: int) -> tuple[Automaton, np.ndarray]:
    """Returns the automaton of some constraints, of numpy arrays, and the first state of each, (B, S) int32."""
    trees = [constraint for constraint in constraints if isinstance(constraint, TreeConstraint)]
    finite = [constraint for constraint in constraints if isinstance(constraint, FiniteConstraint)]
    if len(trees) == len(constraints):
        if any(tree.labels != trees[0].labels for tree in trees):
            raise UserError(
                f"constraints of {len(trees):,} outputs: trees with different labels; in a call all must have the "
                f"same; use the same TreeLabels for every input, or decode inputs with others in a call of their own"
            )
        return tree_automaton(trees, vocab_size)
    if len(finite) < len(constraints):
        names = sorted({type(constraint).__name__ for constraint in constraints})
        raise UserError(
            f"constraints of {len(constraints):,} outputs: of {', '.join(names)}; in a call all must be of "
            f"TreeConstraint or all of FiniteConstraint; use one of them for every input, or decode in several calls"
        )
    has_banks = any(constraint.rewards_progress for constraint in finite)
    return (PhraseAutomaton if has_banks else FiniteAutomaton).of_constraints(finite)
