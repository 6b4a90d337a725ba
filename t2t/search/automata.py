"""Sets of outputs as automata: a state for each hypothesis says which ids may follow.

A finite automaton has a table for several sentences; a state is a row of it. Edges of forced phrases have a table of
their own: a search expands a hypothesis by each of them, so their table must not be as wide as a long list of another
sentence.

A tree is over a given number of words, written as labels: tags, and phrases that begin and end. The state holds the
stack of open phrases, since a phrase is closed by its own label. The depth and the number of words left give the ids
that a tree still needs, so that no phrase is opened that could not be closed in time.

Legend: B sentences, N rows, S states of all sentences, or numbers of a state; E most edges of a state, F most edges of
forced phrases, X = E + F, V ids that have scores, D most open phrases, C kinds of ids.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from keras import ops

from t2t.errors import UserError
from t2t.specs import EOS_ID, PAD_ID
from t2t.specs.constraints import DEAD, MAX_DEPTH, FiniteConstraint, TreeConstraint, TreeLabels


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
    """(S,) bool: whether the beams are divided into banks, see `t2t.search.beam_search`."""


class FiniteAutomaton(_Tables):
    """See `t2t.search.automata.Automaton`; state 0 is the dead state."""

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
                f"constraints of {len(constraints):,} outputs take {cells:,} cells, more than {MOST_CELLS:,}",
                "ask for fewer outputs at once (decode_window), or for shorter lists",
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


_NOTHING, _END, _TAG, _OPEN, _CLOSE = range(5)
"""Kinds of ids."""
_WORDS, _DEPTH, _IS_EMPTY, _STACK = range(4)
"""A state: words without a tag, open phrases, whether the innermost one is over no word yet, and their numbers."""


class TreeAutomaton(NamedTuple):
    """See `t2t.search.automata.Automaton`."""

    kinds: Any
    """(V,) int32: the kind of each id."""
    phrases: Any
    """(V,) int32: for ids that begin or end a phrase, its number from 1; 0 for others."""

    @classmethod
    def of_labels(cls, labels: TreeLabels, vocab_size: int) -> Self:
        """Returns the automaton of a vocabulary, of numpy arrays."""
        kinds_V, phrases_V = np.zeros((2, vocab_size), np.int32)
        kinds_V[EOS_ID] = _END
        kinds_V[list(labels.tags)] = _TAG
        for number, ends in enumerate(labels.phrases, start=1):
            kinds_V[list(ends)] = _OPEN, _CLOSE
            phrases_V[list(ends)] = number
        return cls(kinds_V, phrases_V)

    def allowed(self, states: Any, room: Any, ids: Any) -> Any:
        """See the base class."""
        words_N, depth_N, is_empty_N = states[:, _WORDS], states[:, _DEPTH], states[:, _IS_EMPTY] > 0
        has_words_N, is_outside_N = words_N > 0, ops.equal(depth_N, 0)
        # Needed: its own id, depth + 1 closing ids, a tag per word, EOS.
        fits_N = ops.logical_and(words_N + depth_N + 3 <= room, depth_N < MAX_DEPTH)
        allowed_NC = ops.stack(
            [
                ops.zeros_like(is_empty_N),
                ops.logical_and(is_outside_N, ops.logical_not(has_words_N)),
                has_words_N,
                ops.logical_and(has_words_N, fits_N),
                ops.logical_not(ops.logical_or(is_outside_N, is_empty_N)),
            ],
            axis=1,
        )
        kinds_V, phrases_V = ops.take(self.kinds, ids), ops.take(self.phrases, ids)
        is_other_NV = ops.not_equal(phrases_V[None, :], _innermost(states)[:, None])
        wrong_end_NV = ops.logical_and(ops.equal(kinds_V, _CLOSE)[None, :], is_other_NV)
        return ops.logical_and(ops.take(allowed_NC, kinds_V, axis=1), ops.logical_not(wrong_end_NV))

    def advance(self, states: Any, ids: Any) -> Any:
        """See the base class."""
        kinds_N, phrases_N = ops.take(self.kinds, ids), ops.take(self.phrases, ids)
        is_tag_N, opens_N, closes_N = (ops.cast(ops.equal(kinds_N, kind), "int32") for kind in (_TAG, _OPEN, _CLOSE))
        depth_N = states[:, _DEPTH]
        is_top_ND = ops.equal(ops.arange(MAX_DEPTH, dtype="int32")[None, :], depth_N[:, None])
        pushed_ND = ops.logical_and(is_top_ND, opens_N[:, None] > 0)
        stack_ND = ops.where(pushed_ND, phrases_N[:, None], states[:, _STACK:])
        counts = (states[:, _WORDS] - is_tag_N, depth_N + opens_N - closes_N, opens_N)
        return ops.concatenate([ops.stack(counts, axis=1), stack_ND], axis=1)


def first_states(words: Any) -> Any:
    """Returns the states (B, S) int32 before anything is written, of the words of each sentence, (B,) int32."""
    return ops.pad(ops.expand_dims(words, 1), ((0, 0), (0, _STACK - 1 + MAX_DEPTH)))


def tree_automaton(constraints: Sequence[TreeConstraint], vocab_size: int) -> tuple[TreeAutomaton, Any]:
    """Returns the automaton of constraints with the same labels, and the first state of each, (B, S) int32."""
    words = np.array([constraint.words for constraint in constraints], np.int32)
    return TreeAutomaton.of_labels(constraints[0].labels, vocab_size), np.asarray(first_states(words))


def _innermost(states: Any) -> Any:
    """Returns the number of the innermost open phrase, (N,) int32; -1 without one."""
    depth_N1 = ops.expand_dims(states[:, _DEPTH], 1)
    below_N = ops.take_along_axis(states[:, _STACK:], ops.maximum(depth_N1 - 1, 0), axis=1)[:, 0]
    return ops.where(depth_N1[:, 0] > 0, below_N, -1)
