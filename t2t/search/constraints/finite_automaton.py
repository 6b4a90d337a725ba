"""Finite automata of several sentences in one table; a state is a row of it.

Edges of forced phrases have a table of their own: a search expands a hypothesis by each of them, see
`t2t.search.banks`, so their table must not be as wide as a long list of another sentence.

Legend: B sentences, N rows, S states of all sentences, E most edges of a state, F most edges of forced phrases,
X = E + F, V ids that have scores.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from keras import ops

from t2t.errors import UserError
from t2t.specs.constants import EOS_ID, PAD_ID
from t2t.specs.constraints import DEAD, FiniteConstraint

MOST_CELLS = 2**26
"""Largest number of states times edges of the tables of a call: 512 MiB, on JAX up to 1.2 GiB with padding."""

_NEVER = 2**30
"""`ids_before_end` where an output cannot end."""


class _Tables(NamedTuple):
    edge_ids: Any
    """(S, E) int32: ids whose next state is not the default, at least 0; -1 for none."""
    edge_states: Any
    """(S, E) int32: that state."""
    phrase_ids: Any
    """(S, F) int32: more such ids, of sentences with forced phrases: those that may be written; -1 for none."""
    phrase_states: Any
    """(S, F) int32: their next states."""
    default_states: Any
    """(S,) int32: the next state after any other id."""
    ids_before_end: Any
    """(S,) int32: minimum ids before an output may end, or be cut at its limit; end of sequence is not counted."""
    is_final: Any
    """(S,) bool."""
    shares_beams: Any
    """(S,) bool: whether the beams are divided into banks, see `t2t.search.banks`."""


class FiniteAutomaton(_Tables):
    """See `t2t.search.constraints.automaton.Automaton`; state 0 is the dead state."""

    @classmethod
    def of_constraints(cls, constraints: Sequence[FiniteConstraint]) -> tuple[Self, np.ndarray]:
        """Returns the automaton of constraints, of numpy arrays, and the first state of each, (B, 1) int32.

        Equal constraints, as of one object, share their states.
        """
        unique = list({id(constraint): constraint for constraint in constraints}.values())
        sizes = [len(constraint.edges) for constraint in unique]
        starts = np.cumsum([1, *sizes])
        widths = np.max([_widths(constraint) for constraint in unique], axis=0)
        cells = starts[-1] * widths.sum()
        if cells > MOST_CELLS:
            raise UserError(
                f"constraints of {len(constraints):,} outputs take {cells:,} cells, more than "
                f"{MOST_CELLS:,}; ask for fewer outputs at once (decode_window), or for shorter lists"
            )
        ids = [np.full((starts[-1], width), -1, np.int32) for width in widths]
        states, default_states = [np.zeros_like(table) for table in ids], np.zeros(starts[-1], np.int32)
        ids_before_end = np.full(starts[-1], _NEVER, np.int32)
        is_final, shares = np.zeros((2, starts[-1]), bool)
        for constraint, start in zip(unique, starts[:-1], strict=True):
            for state, edges in enumerate(constraint.edges, start=start):
                for table, part in enumerate(_divided(edges, constraint.rewards_progress)):
                    ids[table][state, : len(part)] = list(part)
                    states[table][state, : len(part)] = [0 if s == DEAD else start + s for s in part.values()]
            rows = slice(start, start + len(constraint.edges))
            default_states[rows] = [0 if s == DEAD else start + s for s in constraint.defaults]
            ids_before_end[rows] = [_NEVER if count is None else count - 1 for count in constraint.needed]
            is_final[start + np.array(sorted(constraint.final), int)] = True
            shares[rows] = constraint.rewards_progress
        first = {id(constraint): start for constraint, start in zip(unique, starts[:-1], strict=True)}
        first_states = np.array([[first[id(constraint)]] for constraint in constraints], np.int32)
        tables = ids[0], states[0], ids[1], states[1], default_states
        return cls(*tables, ids_before_end, is_final, shares), first_states

    def padded(self, states: int, edges: int, phrases: int) -> Self:
        """Returns the automaton, of numpy arrays, with tables of other sizes: S, E and F, none of them smaller.

        The added states are dead, no state leads to them, and the added edges have no id.
        """
        widths = ((0, edges - self.edge_ids.shape[1]),) * 2 + ((0, phrases - self.phrase_ids.shape[1]),) * 2
        filling = (-1, 0, -1, 0, 0, _NEVER, False, False)
        rows = (0, states - len(self.ids_before_end))
        padding = [(rows, width) for width in widths] + [(rows,)] * 4
        return type(self)(
            *(np.pad(*given, constant_values=value) for *given, value in zip(self, padding, filling, strict=True))
        )

    def allowed(self, states: Any, room: Any, ids: Any) -> Any:
        """See the base class."""
        states_N, (ids_NX, after_NX) = states[:, 0], self._edges_of(states)
        by_default_N = ops.take(self.ids_before_end, ops.take(self.default_states, states_N)) < room
        by_edge_NX = ops.take(self.ids_before_end, after_NX) < room[:, None]
        allowed_NV = ops.broadcast_to(by_default_N[:, None], (ops.shape(states)[0], ops.shape(ids)[0]))
        allowed_NV = _with_ids(allowed_NV, ids_NX, by_edge_NX)
        is_end_V, is_padding_V = ops.equal(ids, EOS_ID), ops.equal(ids, PAD_ID)
        may_end_N1 = ops.take(self.is_final, states_N)[:, None]
        return ops.where(is_end_V, may_end_N1, ops.logical_and(allowed_NV, ops.logical_not(is_padding_V)))

    def advance(self, states: Any, ids: Any) -> Any:
        """See the base class."""
        states_N, (ids_NX, after_NX) = states[:, 0], self._edges_of(states)
        is_edge_NX = ops.equal(ids_NX, ids[:, None])
        by_edge_NX = ops.where(is_edge_NX, after_NX, 0)
        by_default_N = ops.take(self.default_states, states_N)
        after_N = ops.where(ops.any(is_edge_NX, axis=1), ops.sum(by_edge_NX, axis=1), by_default_N)
        has_ended_N = ops.logical_or(ops.equal(ids, EOS_ID), ops.equal(ids, PAD_ID))
        return ops.cast(ops.where(has_ended_N, states_N, after_N), "int32")[:, None]

    def _edges_of(self, states: Any) -> tuple[Any, Any]:
        """Returns the ids of both tables in the state of each row, (N, X = E + F) int32, and their next states."""
        pairs = (self.edge_ids, self.phrase_ids), (self.edge_states, self.phrase_states)
        ids_NX, after_NX = (
            ops.concatenate([ops.take(table, states[:, 0], axis=0) for table in pair], axis=1) for pair in pairs
        )
        return ids_NX, after_NX


class PhraseEdges(NamedTuple):
    """How the outputs of rows can go on with forced phrases; rows without banks have no such ids, and bank 0."""

    ids: Any
    """(N, F) int32, distinct within a row; -1 for none."""
    banks: Any
    """(N, F) int32: how many ids an output still needs after each of them: its bank."""
    other_banks: Any
    """(N,) int32: likewise after any other id that may be written."""


class PhraseAutomaton(FiniteAutomaton):
    """A finite automaton; some of its sentences use banks."""

    def shared(self, states: Any) -> Any:
        """Returns which rows use banks, (N,) bool."""
        return ops.take(self.shares_beams, states[:, 0])

    def nearer(self, states: Any, ids: Any) -> Any:
        """Returns which ids bring an output nearer to where it may end, (N, V) bool; none in rows without banks."""
        ids_NF, after_NF = self._phrases_of(states)
        is_nearer_NF = ops.take(self.ids_before_end, after_NF) < ops.take(self.ids_before_end, states[:, 0])[:, None]
        none_NV = ops.zeros((ops.shape(states)[0], ops.shape(ids)[0]), "bool")
        return _with_ids(none_NV, ids_NF, is_nearer_NF)

    def phrases(self, states: Any) -> PhraseEdges:
        """Returns how the outputs of rows can go on with phrases."""
        ids_NF, after_NF = self._phrases_of(states)
        by_default_N = ops.take(self.ids_before_end, ops.take(self.default_states, states[:, 0]))
        others_N = ops.where(self.shared(states), by_default_N, 0)
        return PhraseEdges(ids_NF, ops.take(self.ids_before_end, after_NF), others_N)

    def _phrases_of(self, states: Any) -> tuple[Any, Any]:
        """Returns the ids of `phrase_ids` in the state of each row, (N, F) int32, and their next states."""
        return ops.take(self.phrase_ids, states[:, 0], axis=0), ops.take(self.phrase_states, states[:, 0], axis=0)


def _divided(edges: Mapping[int, int], rewards_progress: bool) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """Divides the edges of a state: those of `edge_ids` and those of `phrase_ids`."""
    if not rewards_progress:
        return edges, {}
    dead = {token: after for token, after in edges.items() if after == DEAD}
    return dead, {token: after for token, after in edges.items() if after != DEAD}


def _widths(constraint: FiniteConstraint) -> tuple[int, int]:
    """Returns the most edges of its states in `edge_ids` and in `phrase_ids`."""
    parts = [_divided(edges, constraint.rewards_progress) for edges in constraint.edges]
    return max(len(first) for first, _ in parts), max(len(second) for _, second in parts)


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
