"""Searches batches, each to its end, by programs of fixed sizes, for JAX.

Legend: B sentences of a batch as it is padded, S source length, N = B * K rows, P prefix length, T room for tokens,
V vocabulary, C tokens that are candidates of any sentence of the batch.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from keras import ops

from t2t.backends import backend
from t2t.backends.jax.functions import Program
from t2t.backends.jax.padding import padded_edges, padded_length, padded_rows, padded_states
from t2t.data.reading.batching import pad_to
from t2t.inference.batch_search import BatchSearch, SearchRows, SearchState, select_from_batch
from t2t.inference.engine import BatchHypotheses
from t2t.inference.rows import Batched, padded, positions_in
from t2t.inference.shortlist import Shortlist
from t2t.models.base import SequenceModel
from t2t.search.automata import FiniteAutomaton
from t2t.search.constraints import BatchConstraints
from t2t.search.result import SearchResult
from t2t.search.settings import SamplingNumbers, SearchSettings, sampling_numbers

SHRINKS_TO = 4
"""On CPUs, when at most one in this many sentences of a batch is unfinished, these continue as a smaller batch, since
finished sentences cost as much. Each batch size needs more programs. Accelerators are idle for most of a step of few
sentences, and compiling takes longer than the steps that it would save."""

SMALLEST = 8
"""Batches of at most this many sentences do not shrink."""


class PaddedSearch(BatchSearch):
    """Searches by programs of fixed sizes.

    Batches are padded to one of a few sizes, and caches have room for the longest output from the start, so that there
    are few programs. Sentences that are only padding have room for one token.
    """

    def __init__(
        self, model: SequenceModel, settings: SearchSettings, extra_length: int, shortlist: Shortlist | None = None
    ):
        super().__init__(model, settings, extra_length, shortlist)
        self._shrinks = not backend().on_accelerators()
        self._start = Program(model, self._first_state, "the beginning of a search", constants=(8,))
        self._step_weights = Program(model, model.step_weights, "the weights of its steps")
        self._advance = Program(model, self._search_until, "a search", replaces=True)
        self._select = Program(model, select_from_batch, "the choice of sentences")
        self._result = Program(model, lambda state: self._search_of(state).result(state.progress), "its result")

    def search(
        self, batches: Sequence[Batched], asked: SearchRows, sizes: np.ndarray, max_ids: int
    ) -> Iterator[list[BatchHypotheses]]:
        """See the base class."""
        weights = self._weights()
        for indices, rows in batches:
            for chosen, found in self._search_rows(rows, asked.select(indices), weights):
                yield [(indices[chosen], found)]

    def search_batch(
        self, ids_BS, seeds_B, constraints: BatchConstraints | None = None, prefix: Sequence[int] = ()
    ) -> SearchResult:
        """See the base class."""
        ids_BS = np.asarray(ids_BS)
        prefixes = [prefix] * len(ids_BS) if len(prefix) else None
        asked = SearchRows(np.asarray(seeds_B), prefixes, constraints)
        state, token_ids, room = self._started(ids_BS, asked, len(prefix))
        state, _ = self._advance(state, np.int32(room), np.int32(0), self._weights(), token_ids)
        return SearchResult(*(field[: len(ids_BS)] for field in self.result(state)))

    def steps(self, ids: Sequence[int] | np.ndarray, asked: SearchRows, log_prob: float = 0.0) -> Iterator[SearchState]:
        """See the base class."""
        state, token_ids, _ = self._started(padded([ids]), asked, self._code_length)
        if log_prob:
            state = self._begin_at(state, log_prob)
        weights = self._weights()
        for room in itertools.count(1):
            state, active_B = self._advance(state, np.int32(room), np.int32(0), weights, token_ids)
            yield state
            if not np.asarray(active_B).any():
                return

    def result(self, state: SearchState) -> SearchResult:
        """See the base class."""
        return SearchResult(*map(np.asarray, self._result(state)))

    def _weights(self) -> Any:
        """Returns the current weights as steps read them; () with a shortlist."""
        return self._step_weights() if self._shortlist is None else ()

    def _search_rows(self, rows: np.ndarray, asked: SearchRows, weights: Any) -> Iterator[BatchHypotheses]:
        """Yields indices of rows and their hypotheses; a few unfinished sentences continue as a smaller batch."""
        state, token_ids, room = self._started(rows, asked, self._code_length)
        indices_B = np.arange(len(state.limits))
        while True:
            fewer = len(indices_B) // SHRINKS_TO if self._shrinks and len(indices_B) > SMALLEST else 0
            state, active_B = self._advance(state, np.int32(room), np.int32(fewer), weights, token_ids)
            is_active_B, found = np.asarray(active_B), self.result(state)
            is_kept_B = np.zeros_like(is_active_B)
            if is_active_B.any() and is_active_B.sum() <= fewer:
                is_kept_B[np.argsort(~is_active_B, kind="stable")[:fewer]] = True
            leaves_B = ~is_kept_B & (indices_B < len(rows))
            yield indices_B[leaves_B], SearchResult(*(field[leaves_B] for field in found))
            if not is_kept_B.any():
                return
            state = self._select(state, np.flatnonzero(is_kept_B).astype(np.int32))
            indices_B = indices_B[is_kept_B]

    def _started(self, rows: np.ndarray, asked: SearchRows, code_length: int) -> tuple[SearchState, Any, int]:
        """Returns the initial state of a padded batch, the ids that may be written (None for all), and T."""
        seeds_B, prefixes, constraints, sampling = asked
        count, size = len(rows), padded_rows(len(rows))
        is_sequence = rows.ndim > len((self._model.spec.inputs or self._model.spec.targets).shape) + 1
        lengths = [padded_length(rows.shape[1])] if is_sequence else []
        inputs = pad_to(rows, [size, *lengths, *rows.shape[1 + len(lengths) :]])
        candidates: Any = () if self._shortlist is None else self._shortlist.candidates(inputs)
        begun: Any = ()
        if prefixes is not None:
            prefix_BP, lengths_B = padded(prefixes), np.array([len(ids) for ids in prefixes], np.int32)
            added_B = lengths_B - np.int32(code_length)
            begun = (
                pad_to(prefix_BP, [size, padded_length(prefix_BP.shape[1])]), pad_to(lengths_B, [size]),
                pad_to(added_B, [size]),
            )  # fmt: skip
        limited: Any = ()
        if constraints is not None:
            # Padding gets the constraint of the first sentence.
            indices = np.where(np.arange(size) < count, np.arange(size), 0)
            limited = _padded_tables(constraints.select(indices))
        room = self._room(inputs, is_sequence, begun, constraints)
        state = self._start(
            inputs, pad_to(np.asarray(seeds_B, np.int32), [size]), self._alpha, self._sampling(sampling, size),
            np.int32(self._extra_length), candidates, begun, limited, room, np.int32(count),
        )  # fmt: skip
        prefix = begun[0] if begun else inputs if not self._has_inputs else None
        return state, self._token_ids(candidates, prefix), room

    def _sampling(self, sampling: SamplingNumbers | None, size: int) -> SamplingNumbers:
        """Returns how each sentence of a padded batch is sampled, (B,); padding is sampled as the last sentence."""
        numbers = sampling or sampling_numbers([self._settings])
        return SamplingNumbers(*(one[np.minimum(np.arange(size), len(one) - 1)] for one in numbers))

    def _room(self, inputs: np.ndarray, is_sequence: bool, begun: Any, constraints: BatchConstraints | None) -> int:
        """Returns T: no output of the batch can be longer."""
        positions = positions_in(self._model)(inputs[0]) if is_sequence or self._has_inputs else 1
        room = positions + self._extra_length + (int(begun[2].max()) if begun else 0)
        if self._model.longest_sequence is not None:
            room = min(room, self._model.longest_sequence)
        if begun:
            room = max(room, int(begun[1].max()) + 1)
        if constraints is not None:
            room = max(room, int(np.max(constraints.shortest)))
        return padded_length(max(room, 1))

    def _first_state(
        self, inputs, seeds_B, alpha, sampling: SamplingNumbers, extra_length, candidates_BV, begun, limited,
        room: int, count,
    ) -> SearchState:  # fmt: skip
        """Returns the initial state of a search; the first `count` sentences of the batch are no padding."""
        state = self._initial_state(inputs, seeds_B, alpha, sampling, extra_length, candidates_BV, room)
        if begun:
            state = self._begin_with(state, *begun)
        if limited:
            state = self.constrain(state, limited)
        limits_B = ops.where(ops.arange(ops.shape(state.limits)[0]) < count, state.limits, 1)
        return state._replace(limits=limits_B)

    def _token_ids(self, candidates_BV: Any, prefix_BP: np.ndarray | None) -> np.ndarray | None:
        """Returns the candidates of any sentence and the ids of prefixes, (C,) int32, ascending; None for all.

        Other ids fill them up to one of a few sizes; no sentence may write those.
        """
        if self._shortlist is None:
            return None
        is_held_V: np.ndarray = np.any(candidates_BV, axis=0)
        is_held_V[: self._least_candidates] = True
        if prefix_BP is not None:
            is_held_V[np.unique(prefix_BP)] = True
        missing = min(padded_length(int(is_held_V.sum())), self._vocab_size) - int(is_held_V.sum())
        is_held_V[np.flatnonzero(~is_held_V)[:missing]] = True
        return np.flatnonzero(is_held_V).astype(np.int32)


def _padded_tables(constraints: BatchConstraints) -> BatchConstraints:
    """Pads the tables of finite constraints to one of a few sizes; those of trees have the size of the vocabulary."""
    automaton = constraints.automaton
    if not isinstance(automaton, FiniteAutomaton):
        return constraints
    widths = (padded_edges(table.shape[1]) for table in (automaton.edge_ids, automaton.phrase_ids))
    return constraints._replace(automaton=automaton.padded(padded_states(len(automaton.ids_before_end)), *widths))
