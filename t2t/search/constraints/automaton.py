"""Sets of outputs as automata: a state for each hypothesis says which ids may follow.

Legend: B sentences, N rows, S numbers of a state, V ids that have scores.
"""

from abc import abstractmethod
from typing import Any, Protocol

from keras import ops

from t2t.search.constraints.token_rules import as_log_probs
from t2t.search.step import NextToken


class Automaton(Protocol):
    """Tables of an automaton, a NamedTuple of tensors: compiled functions take it as it is.

    All sentences of a batch share the tables. What differs between them is in their first states.
    """

    @abstractmethod
    def allowed(self, states: Any, room: Any, ids: Any) -> Any:
        """Returns which ids may come next, (N, V) bool.

        If only these are written, an output can always be completed within its room, including end of sequence, or is
        cut at its limit in a state where it may end.

        Args:
            states: (N, S) int32.
            room: (N,) int32, ids that may still be written, this one and end of sequence included.
            ids: (V,) int32.
        """

    @abstractmethod
    def advance(self, states: Any, ids: Any) -> Any:
        """Returns the states (N, S) after another id each, (N,) int32."""


def keep_to(found: NextToken, automaton: Automaton, states: Any, room: Any, vocab_size: int) -> NextToken:
    """Forbids ids that the automaton does not allow, without renormalising the others."""
    found = as_log_probs(found, vocab_size)
    return found._replace(scores=ops.where(automaton.allowed(states, room, found.columns), found.scores, -float("inf")))
