"""Searches batches by functions of unknown sizes, TOKENS_PER_CALL tokens at a time, for TensorFlow.

Finished sentences leave a batch between the calls. They finish one by one, and a step for few sentences takes nearly as
long as one for many, so unfinished batches of the same number of tokens are concatenated, see `BatchQueue`.

Legend: B sentences of a batch, S source length, N = B * K rows, P prefix length, J selected sentences, V vocabulary,
C tokens that are candidates of any sentence of the batch.
"""

import collections
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import KerasTensor, ops

from t2t.backends import backend
from t2t.backends.base import CompiledFunction, inputs_signature
from t2t.inference.batch_search import (
    BatchSearch,
    SearchBatch,
    SearchRows,
    SearchState,
    concat_batches,
    prefix_of,
    select_from_batch,
)
from t2t.inference.engine import BatchHypotheses
from t2t.inference.rows import Batched, padded
from t2t.inference.shortlist import Shortlist
from t2t.models.base import SequenceModel
from t2t.search.constraints import BatchConstraints
from t2t.search.result import SearchResult
from t2t.search.settings import SamplingNumbers, SearchSettings, sampling_numbers

MIN_ACTIVE_SHARE = 0.5
"""When no more than this fraction of a batch is still being searched, the rest is dropped from it."""

SIZE_STEP = 8
"""A batch shrinks to a multiple of this, or to one of SMALL_SIZES: on CPUs, each new size costs as much as a step, for
new matrix kernels."""

SMALL_SIZES = (1, 2, 4)
"""Sizes for the many last steps of a batch, when few sentences continue to the limit."""


def min_active_size(size: int) -> int:
    """Returns how many sentences of a batch of `size` may be unfinished when the finished ones leave it."""
    count = int(size * MIN_ACTIVE_SHARE)
    return count // SIZE_STEP * SIZE_STEP or max((size for size in SMALL_SIZES if size <= count), default=0)


def select_active(active_B, min_active):
    """Returns which sentences stay in the batch, (B,) bool: all, the unfinished and a few finished, or none.

    Args:
        active_B: (B,) bool.
        min_active: () int32, the batch shrinks once at most this many sentences are unfinished, see `min_active_size`.
    """
    is_active_B = ops.cast(active_B, "int32")
    count = ops.sum(is_active_B)
    size = -(-count // SIZE_STEP) * SIZE_STEP
    for small in reversed(SMALL_SIZES):
        size = ops.where(count <= small, small, size)
    filling_B = ops.cumsum(1 - is_active_B) <= size - count
    stays_B = ops.logical_and(ops.logical_or(active_B, filling_B), count > 0)
    return ops.logical_or(stays_B, count > min_active)


TOKENS_PER_CALL = 16
"""Tokens that one call searches; buffers of outputs grow by this many."""

_NUMBER, _NUMBER_B = KerasTensor([], "int32"), KerasTensor([None], "int32")
_ALPHA = KerasTensor([], "float32")
_SAMPLING = SamplingNumbers(*(KerasTensor([None], one.dtype.name) for one in sampling_numbers([SearchSettings()])))


class Advanced(NamedTuple):
    """A batch after some more tokens."""

    state: SearchState
    """Of the sentences that stay; of all if none does."""
    stays: Any
    """(B,) bool: which sentences stay."""
    result: SearchResult
    """Of all B sentences; those that stay may be unfinished."""


class GrowingSearch(BatchSearch):
    """Searches by a function of unknown sizes.

    So no batch waits for a compiler, caches grow with the outputs, and finished sentences leave the batch.
    """

    def __init__(
        self, model: SequenceModel, settings: SearchSettings, extra_length: int, shortlist: Shortlist | None = None
    ):
        super().__init__(model, settings, extra_length, shortlist)
        candidates = () if shortlist is None else KerasTensor([None, self._vocab_size], "bool")
        sources = (inputs_signature(model), _NUMBER_B, _ALPHA, _SAMPLING, _NUMBER, candidates)
        self._start = backend().compile(self._growing_state, sources, model)
        self._step_weights = backend().compile(model.step_weights, (), model) if shortlist is None else None
        self._batch = keras.tree.map_structure(unknown_sizes, self._start.outputs)
        self._programs: dict[tuple[bool, type], CompiledFunction] = {}
        self._tracing = threading.Lock()

    def search(
        self, batches: Sequence[Batched], asked: SearchRows, sizes: np.ndarray, max_ids: int
    ) -> Iterator[list[BatchHypotheses]]:
        """See the base class."""
        return BatchQueue(self, sizes, max_ids).run(batches, asked)

    def start(self, indices_B: np.ndarray, ids_BS: np.ndarray, asked: SearchRows) -> SearchBatch:
        """Returns a batch in its initial state.

        Args:
            indices_B: (B,) int, indices of the sentences.
            ids_BS: (B, S) int32, sources, or output prefixes if the model has no inputs; sources other than text are
                arrays as in `t2t.data.reading.batch_arrays`.
            asked: of the sentences.
        """
        return SearchBatch(indices_B, 0, self._begun(self._start_state(ids_BS, asked), asked))

    def step_weights(self) -> Any:
        """Returns the current weights as steps read them, for many calls of `advance`; () with a shortlist."""
        return () if self._step_weights is None else self._step_weights()

    def advance(self, batch: SearchBatch, weights: Any) -> tuple[list[BatchHypotheses], SearchBatch | None]:
        """Searches TOKENS_PER_CALL more tokens. Returns finished hypotheses and the batch of unfinished sentences.

        Finished sentences leave the batch in groups, since smaller batches take less time per token. `weights` is what
        `step_weights` returned.
        """
        indices, tokens, state = batch
        program = self._program_of(state)
        tokens += TOKENS_PER_CALL
        found = []
        while True:
            state, stays, result = program(state, np.int32(tokens), np.int32(min_active_size(len(indices))), weights)
            leaves_B = ~np.asarray(stays)
            if leaves_B.any():
                found.append((indices[leaves_B], SearchResult(*(np.asarray(field)[leaves_B] for field in result))))
                indices = indices[~leaves_B]
                if not len(indices):
                    return found, None
            if int(state.progress.step) == tokens:
                return found, SearchBatch(indices, tokens, state)

    def steps(self, ids: Sequence[int] | np.ndarray, asked: SearchRows, log_prob: float = 0.0) -> Iterator[SearchState]:
        """See the base class."""
        state = self._start_state(np.array([ids], np.int32), asked)
        if log_prob:
            state = self._begin_at(state, log_prob)
        state, weights = self._begun(state, asked), self.step_weights()
        for room in itertools.count(1):
            state, stays, _ = self._program_of(state)(state, np.int32(room), np.int32(0), weights)
            yield state
            if not np.asarray(stays).any():
                return

    def result(self, state: SearchState) -> SearchResult:
        """See the base class."""
        return SearchResult(*map(np.asarray, self._search_of(state).result(state.progress)))

    def _begun(self, state: SearchState, asked: SearchRows) -> SearchState:
        """Returns an initial state of outputs with the prefixes and constraints that are asked of them."""
        if asked.prefixes is not None:
            lengths_B = ops.convert_to_tensor(np.array([len(ids) for ids in asked.prefixes], np.int32))
            prefix_BP = ops.convert_to_tensor(padded(asked.prefixes))
            state = self._begin_with(state, prefix_BP, lengths_B, lengths_B - self._code_length)
        return state if asked.constraints is None else self.constrain(state, asked.constraints)

    def _program_of(self, state: SearchState) -> CompiledFunction:
        """Returns `_advance` compiled for states like this: with or without prefixes, of its kind of automaton."""
        kind = prefix_of(state) is not None, type(state.automaton)
        if kind not in self._programs:  # what exists does not wait for another kind that is being compiled
            with self._tracing:
                if kind not in self._programs:
                    weights = () if self._step_weights is None else self._step_weights.outputs
                    signature = (signature_like(state, self._batch), _NUMBER, _NUMBER, weights)
                    self._programs[kind] = backend().compile(self._advance, signature, self._model)
        return self._programs[kind]

    def search_batch(
        self, ids_BS, seeds_B, constraints: BatchConstraints | None = None, prefix: Sequence[int] = ()
    ) -> SearchResult:
        """See the base class; it may be part of a graph."""
        state = self._started(ids_BS, seeds_B)
        if len(prefix):
            prefix_BP = ops.tile(np.array([prefix], np.int32), [ops.shape(ids_BS)[0], 1])
            state = self._begin_with(state, prefix_BP, np.array([len(prefix)], np.int32), 0)
        if constraints is not None:
            state = self.constrain(state, constraints)
        return self._program_of(state)(state, ops.max(state.limits), np.int32(0), self.step_weights()).result

    def _start_state(self, ids_BS: np.ndarray, asked: SearchRows) -> SearchState:
        candidates = () if self._shortlist is None else self._shortlist.candidates(ids_BS)
        return self._started(ids_BS, np.asarray(asked.seeds, np.int32), asked.sampling, candidates)

    def _started(self, ids_BS, seeds_B, sampling: SamplingNumbers | None = None, candidates_BV=()) -> SearchState:
        sampling = sampling or sampling_numbers([self._settings])
        return self._start(ids_BS, seeds_B, self._alpha, sampling, np.int32(self._extra_length), candidates_BV)

    def _growing_state(
        self, ids_BS, seeds_B, alpha, sampling: SamplingNumbers, extra_length, candidates_BV
    ) -> SearchState:
        return self._initial_state(ids_BS, seeds_B, alpha, sampling, extra_length, candidates_BV)

    def _advance(self, state: SearchState, room, min_active, weights: Any) -> Advanced:
        """Searches up to `room` tokens, see `_search_until`; then sentences leave the batch.

        All of it is one program, since each call takes as long as several of its operations.
        """
        token_ids = None if self._shortlist is None else self._union(state.candidates, prefix_of(state))
        widened = state._replace(progress=self._search_of(state).widen(state.progress, room))
        state, active_B = self._search_until(widened, room, min_active, weights, token_ids)
        is_full = ops.equal(state.progress.step, room)  # the batch may now be joined with others
        stays_B = ops.where(is_full, active_B, select_active(active_B, min_active))

        def selected():
            return select_from_batch(state, ops.cast(ops.nonzero(stays_B)[0], "int32"))

        is_unchanged = ops.logical_or(ops.all(stays_B), ops.logical_not(ops.any(stays_B)))
        kept = ops.cond(is_unchanged, lambda: state, selected)
        return Advanced(kept, stays_B, self._search_of(state).result(state.progress))

    def _union(self, candidates_BV, prefix_NP):
        """Returns the candidates of any sentence and the tokens of prefixes, (C,) int32, ascending."""
        is_first_V = ops.arange(self._vocab_size) < self._least_candidates
        union_V = ops.logical_or(ops.any(candidates_BV, axis=0), is_first_V)
        if prefix_NP is not None:
            union_V = ops.logical_or(union_V, ops.bincount(ops.ravel(prefix_NP), minlength=self._vocab_size) > 0)
        return ops.nonzero(union_V)[0]


def unknown_sizes(spec: Any) -> KerasTensor:
    """Returns the signature of a state's tensor at any step, from that of the initial state, or from itself.

    The number of sentences changes, and so does an axis that begins with size 0.
    """
    sizes = [None if axis == 0 or size == 0 else size for axis, size in enumerate(spec.shape)]
    return KerasTensor(sizes, keras.utils.standardize_dtype(spec.dtype))


def signature_like(state: SearchState, plain: SearchState) -> SearchState:
    """Returns the signature of states at any step, from an initial state.

    `plain` is that of states without prefixes and constraints.
    """
    prefix = () if prefix_of(state) is None else KerasTensor([None, None], "int32")
    # The second field of a progress has its hypotheses, with the state of the automaton of each.
    states = keras.tree.map_structure(unknown_sizes, state.progress[1].constraint)
    tables = keras.tree.map_structure(
        lambda table: KerasTensor([None] * len(table.shape), keras.utils.standardize_dtype(table.dtype)),
        state.automaton,
    )
    name, hypotheses = plain.progress._fields[1], plain.progress[1]._replace(constraint=states)
    progress = plain.progress._replace(**{name: hypotheses})
    return plain._replace(prefix=prefix, automaton=tables, progress=progress)


class BatchQueue:
    """A search of some batches in turn, each advanced by some tokens; several queues may be searched in parallel.

    The hypotheses of a row do not depend on other rows. Which rows share a batch depends on the batches alone.

    Args:
        search: searches one batch.
        sizes: (rows,) int, size of each row in ids.
        max_ids: maximum ids of a batch, padding included.
        concat: joins unfinished batches.
    """

    def __init__(
        self,
        search: GrowingSearch,
        sizes: np.ndarray,
        max_ids: int,
        concat: Callable[[list[SearchBatch]], SearchBatch] = concat_batches,
    ):
        self._search, self._sizes, self._max_ids, self._concat = search, sizes, max_ids, concat
        self._weights = search.step_weights()
        self._ready: collections.deque[list[SearchBatch]] = collections.deque()
        self._unfinished: dict[int, list[SearchBatch]] = collections.defaultdict(list)
        """By the number of tokens searched."""

    def run(self, batches: Sequence[Batched], asked: SearchRows) -> Iterator[list[BatchHypotheses]]:
        """Yields, after each advance of a batch, indices of rows with their hypotheses, as they finish."""
        for indices, rows in batches:
            yield self._advance(self._search.start(indices, rows, asked.select(indices)))
            yield from self._advance_ready()
        while self._unfinished:
            self._ready.append(self._unfinished.pop(min(self._unfinished)))
            yield from self._advance_ready()

    def _advance_ready(self) -> Iterator[list[BatchHypotheses]]:
        while self._ready:
            yield self._advance(self._concat(self._ready.popleft()))

    def _advance(self, batch: SearchBatch) -> list[BatchHypotheses]:
        """Advances a batch and keeps its unfinished sentences for joining; releases kept ones that do not fit."""
        found, unfinished = self._search.advance(batch, self._weights)
        if unfinished is not None:
            kept = self._unfinished[unfinished.tokens]
            indices = np.concatenate([one.indices for one in (*kept, unfinished)])
            if kept and len(indices) * int(self._sizes[indices].max()) > self._max_ids:
                self._ready.append(self._unfinished.pop(unfinished.tokens))
            self._unfinished[unfinished.tokens].append(unfinished)
        return found
