"""Finite automata of several sentences in one table; a state is a row of it.

Legend: B sentences, N rows, S states of all sentences, E most edges of a state, V ids that have scores.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from keras import ops

from t2t.errors import UserError
from t2t.specs.constants import EOS_ID, PAD_ID
from t2t.specs.constraints.finite import DEAD, FiniteConstraint

MOST_CELLS = 2**26
"""Largest number of states times edges of the tables of a call: 512 MiB."""

_NEVER = 2**30
"""Ids that an output still needs where it cannot end."""


class _Tables(NamedTuple):
    edge_ids: Any
    """(S, E) int32: ids whose next state is not the default, at least 0; -1 for none."""
    edge_states: Any
    """(S, E) int32: that state."""
    default_states: Any
    """(S,) int32: the next state after any other id."""
    needed: Any
    """(S,) int32: ids that an output needs at least before it may end, or be cut at its limit."""
    is_final: Any
    """(S,) bool."""
    shares_beams: Any
    """(S,) bool: whether the beams are divided into banks, see `t2t.decoding.banks`."""


class FiniteAutomaton(_Tables):
    """See `t2t.decoding.constraints.automaton.Automaton`; state 0 is the dead state."""

    @classmethod
    def of_constraints(cls, constraints: Sequence[FiniteConstraint]) -> tuple[Self, np.ndarray]:
        """Returns the automaton of constraints, of numpy arrays, and the first state of each, (B, 1) int32.

        Equal constraints, as of one object, share their states.
        """
        unique = list({id(constraint): constraint for constraint in constraints}.values())
        sizes = [len(constraint.edges) for constraint in unique]
        starts = np.cumsum([1, *sizes])
        most = max(len(edges) for constraint in unique for edges in constraint.edges)
        if starts[-1] * most > MOST_CELLS:
            raise UserError(
                f"constraints of {len(constraints):,} outputs take {starts[-1] * most:,} cells, more than "
                f"{MOST_CELLS:,}; ask for fewer outputs at once (decode_window), or for shorter lists"
            )
        edge_ids = np.full((starts[-1], most), -1, np.int32)
        edge_states, default_states = np.zeros_like(edge_ids), np.zeros(starts[-1], np.int32)
        needed, (is_final, shares) = np.full(starts[-1], _NEVER, np.int32), np.zeros((2, starts[-1]), bool)
        for constraint, start in zip(unique, starts[:-1], strict=True):
            for state, edges in enumerate(constraint.edges, start=start):
                edge_ids[state, : len(edges)] = list(edges)
                edge_states[state, : len(edges)] = [0 if s == DEAD else start + s for s in edges.values()]
            rows = slice(start, start + len(constraint.edges))
            default_states[rows] = [0 if s == DEAD else start + s for s in constraint.defaults]
            needed[rows] = [_NEVER if count is None else count - 1 for count in constraint.needed]
            is_final[start + np.array(sorted(constraint.final), int)] = True
            shares[rows] = constraint.rewards_progress
        first = {id(constraint): start for constraint, start in zip(unique, starts[:-1], strict=True)}
        first_states = np.array([[first[id(constraint)]] for constraint in constraints], np.int32)
        return cls(edge_ids, edge_states, default_states, needed, is_final, shares), first_states

    def allowed(self, states: Any, room: Any, ids: Any) -> Any:
        """See the base class."""
        states_N, ids_NE = states[:, 0], self.edge_ids_of(states)
        by_default_N = ops.take(self.needed, ops.take(self.default_states, states_N)) < room
        by_edge_NE = ops.take(self.needed, ops.take(self.edge_states, states_N, axis=0)) < room[:, None]
        allowed_NV = ops.broadcast_to(by_default_N[:, None], (ops.shape(states)[0], ops.shape(ids)[0]))
        allowed_NV = _with_ids(allowed_NV, ids_NE, by_edge_NE)
        is_end_V, is_padding_V = ops.equal(ids, EOS_ID), ops.equal(ids, PAD_ID)
        may_end_N1 = ops.take(self.is_final, states_N)[:, None]
        return ops.where(is_end_V, may_end_N1, ops.logical_and(allowed_NV, ops.logical_not(is_padding_V)))

    def advance(self, states: Any, ids: Any) -> Any:
        """See the base class."""
        states_N = states[:, 0]
        is_edge_NE = ops.equal(self.edge_ids_of(states), ids[:, None])
        by_edge_NE = ops.where(is_edge_NE, ops.take(self.edge_states, states_N, axis=0), 0)
        by_default_N = ops.take(self.default_states, states_N)
        after_N = ops.where(ops.any(is_edge_NE, axis=1), ops.sum(by_edge_NE, axis=1), by_default_N)
        has_ended_N = ops.logical_or(ops.equal(ids, EOS_ID), ops.equal(ids, PAD_ID))
        return ops.cast(ops.where(has_ended_N, states_N, after_N), "int32")[:, None]

    def edge_ids_of(self, states: Any) -> Any:
        """Returns the ids of `edge_ids` in the state of each row, (N, E) int32; -1 for none."""
        return ops.take(self.edge_ids, states[:, 0], axis=0)


class PhraseAutomaton(FiniteAutomaton):
    """A finite automaton; some of its sentences use banks."""

    def shared(self, states: Any) -> Any:
        """Returns which rows use banks, (N,) bool."""
        return ops.take(self.shares_beams, states[:, 0])

    def nearer(self, states: Any, ids: Any) -> Any:
        """Returns which ids bring an output nearer to where it may end, (N, V) bool; none in rows without banks."""
        after_NE = ops.take(self.needed, ops.take(self.edge_states, states[:, 0], axis=0))
        is_nearer_NE = after_NE < ops.take(self.needed, states[:, 0])[:, None]
        none_NV = ops.zeros((ops.shape(states)[0], ops.shape(ids)[0]), "bool")
        nearer_NV = _with_ids(none_NV, self.edge_ids_of(states), is_nearer_NE)
        return ops.logical_and(nearer_NV, self.shared(states)[:, None])

    def banks(self, states: Any) -> Any:
        """Returns how many ids outputs still need, (N,) int32; 0 in rows without banks."""
        return ops.where(self.shared(states), ops.take(self.needed, states[:, 0]), 0)


def _with_ids(values_NV: Any, ids_NE: Any, new_NE: Any) -> Any:
    """Returns bool values (N, V) with those at `ids_NE` of each row replaced by `new_NE`; ids of -1 are ignored."""
    rows, width = ops.shape(values_NV)
    # An extra last column takes the -1s.
    columns_NE = ops.where(ids_NE < 0, width, ids_NE)
    numbers_NE = ops.broadcast_to(ops.arange(rows, dtype="int32")[:, None], ops.shape(ids_NE))
    places = ops.stack([ops.reshape(numbers_NE, (-1,)), ops.reshape(columns_NE, (-1,))], axis=1)
    changes = ops.reshape(ops.where(new_NE, 1, -1), (-1,))
    change_NV = ops.scatter(places, changes, (rows, width + 1))[:, :width]
    return ops.where(ops.equal(change_NV, 0), values_NV, change_NV > 0)
