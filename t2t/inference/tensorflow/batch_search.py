"""Searches batches on TensorFlow, TOKENS_PER_CALL tokens at a time; finished sentences leave between the calls.

Legend: B sentences of a batch, S source length, N = B * K rows, P prefix length, J selected sentences, V vocabulary,
C tokens that are candidates of any sentence of the batch.
"""

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from keras import ops

from t2t.inference.batch_search import BatchSearch, SearchBatch, SearchState, prefix_of, select_from_batch
from t2t.inference.engine import BatchHypotheses, Constraints
from t2t.inference.rows import Batched, padded
from t2t.inference.shortlist import Shortlist
from t2t.inference.tensorflow.batch_queue import BatchQueue
from t2t.inference.tensorflow.devices import TensorFlowFunction, traced
from t2t.inference.tensorflow.search_signatures import inputs_signature, signature_like, unknown_sizes
from t2t.models.base import SequenceModel
from t2t.search.constraints import BatchConstraints
from t2t.search.result import SearchResult
from t2t.search.settings import SearchNumbers, SearchSettings

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


def select_active(active: np.ndarray, min_active: int) -> np.ndarray:
    """Returns which sentences stay in the batch, (B,) bool: all, the unfinished and a few finished, or none.

    Args:
        active: (B,) bool.
        min_active: the batch shrinks once at most this many sentences are unfinished, see `min_active_size`.
    """
    count = int(active.sum())
    if count > min_active or count == 0:
        return np.full(len(active), count > 0)
    size = next((size for size in SMALL_SIZES if size >= count), -(-count // SIZE_STEP) * SIZE_STEP)
    kept = active.copy()
    kept[np.flatnonzero(~active)[: size - count]] = True
    return kept


TOKENS_PER_CALL = 16
"""Tokens that one call searches; buffers of outputs grow by this many."""

_NUMBER, _FLOAT = tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.float32)
_NUMBERS = SearchNumbers(_FLOAT, _FLOAT, top_k=_NUMBER, top_p=_FLOAT, seed=tf.TensorSpec([], tf.uint32))


class _Programs(NamedTuple):
    """Compiled functions of states of one structure."""

    advance: Callable
    """Searches up to a number of tokens, see `BatchSearch._search_until`."""
    keep: Callable
    """Selects sentences."""
    result: Callable
    """Returns the hypotheses."""


class TensorFlowBatchSearch(BatchSearch):
    """Searches on TensorFlow.

    A step runs in a graph of unknown sizes, so that no batch waits for a compiler, caches grow with the outputs, and
    finished sentences leave the batch.
    """

    def __init__(
        self, model: SequenceModel, settings: SearchSettings, extra_length: int, shortlist: Shortlist | None = None
    ):
        super().__init__(model, settings, extra_length, shortlist)
        candidates = () if shortlist is None else tf.TensorSpec([None, self._vocab_size], tf.bool)
        sources = (inputs_signature(model), tf.TensorSpec([None], tf.int32), _NUMBERS, _NUMBER, candidates)
        self._start = TensorFlowFunction(model, self._growing_state, sources)
        self._batch = tf.nest.map_structure(unknown_sizes, self._start.structured_outputs)
        self._programs: dict[tuple[bool, type], _Programs] = {}
        self._tracing = threading.Lock()

    def search(
        self,
        batches: Sequence[Batched],
        seeds: np.ndarray,
        prefixes: Sequence[Sequence[int]] | None = None,
        constraints: BatchConstraints | None = None,
        *,
        sizes: np.ndarray,
        max_ids: int,
    ) -> Iterator[list[BatchHypotheses]]:
        """See the base class."""
        return BatchQueue(self, sizes, max_ids).run(batches, seeds, prefixes, constraints)

    def start(
        self,
        indices_B: np.ndarray,
        ids_BS: np.ndarray,
        seeds_B: np.ndarray,
        prefixes: Sequence[Sequence[int]] | None = None,
        constraints: BatchConstraints | None = None,
    ) -> SearchBatch:
        """Returns a batch in its initial state.

        Args:
            indices_B: (B,) int, indices of the sentences.
            ids_BS: (B, S) int32, sources, or output prefixes if the model has no inputs; sources other than text are
                arrays as in `t2t.data.reading.batch_arrays`.
            seeds_B: (B,) int32, sampling seed of each sentence.
            prefixes: B lists of ids that outputs begin with, if the model has inputs; None for none.
            constraints: on the outputs of B sentences; None for none.
        """
        state = self._start_state(ids_BS, seeds_B)
        if prefixes is not None:
            state = self._begin_with_ids(state, prefixes)
        return SearchBatch(indices_B, 0, state if constraints is None else self.constrain(state, constraints))

    def advance(self, batch: SearchBatch) -> tuple[list[BatchHypotheses], SearchBatch | None]:
        """Searches TOKENS_PER_CALL more tokens. Returns finished hypotheses and the batch of unfinished sentences.

        Finished sentences leave the batch in groups, since smaller batches take less time per token.
        """
        indices, tokens, state = batch
        programs = self._programs_of(state)
        tokens += TOKENS_PER_CALL
        found = []
        while True:
            min_active = min_active_size(len(indices))
            state, active = programs.advance(state, tf.constant(tokens), tf.constant(min_active))
            kept = active.numpy()
            reached_tokens = kept.sum() > min_active
            if not reached_tokens:
                kept = select_active(kept, min_active)
            if not kept.all():
                result = SearchResult(*(field[~kept] for field in self.result(state)))
                found.append((indices[~kept], result))
                indices = indices[kept]
                if not len(indices):
                    return found, None
                state = programs.keep(state, tf.constant(np.flatnonzero(kept), tf.int32))
            if reached_tokens:
                return found, SearchBatch(indices, tokens, state)

    def steps(
        self,
        ids: Sequence[int] | np.ndarray,
        prefix: Sequence[int] = (),
        log_prob: float = 0.0,
        sentence_seed: int = 0,
        constraints: Constraints | None = None,
    ) -> Iterator[SearchState]:
        """See the base class."""
        state = self._start_state(np.array([ids], np.int32), np.array([sentence_seed]))
        if log_prob:
            state = self._begin_at(state, log_prob)
        if len(prefix):
            state = self._begin_with_ids(state, [prefix])
        if constraints is not None:
            built = BatchConstraints.build(constraints, self._vocab_size, [prefix])
            state = self.constrain(state, built)
        for room in itertools.count(1):
            state, active = self._programs_of(state).advance(state, tf.constant(room), tf.constant(0))
            yield state
            if not active.numpy().any():
                return

    def result(self, state: SearchState) -> SearchResult:
        """See the base class."""
        return SearchResult(*(field.numpy() for field in self._programs_of(state).result(state)))

    def _begin_with_ids(self, state: SearchState, prefixes: Sequence[Sequence[int]]) -> SearchState:
        lengths_B = tf.constant([len(ids) for ids in prefixes])
        return self._begin_with(state, tf.constant(padded(prefixes)), lengths_B, lengths_B - self._code_length)

    def _programs_of(self, state: SearchState) -> _Programs:
        """Returns the compiled functions for states like this: with or without prefixes, of its kind of automaton."""
        kind = prefix_of(state) is not None, type(state.automaton)
        if kind not in self._programs:  # what exists does not wait for another kind that is being compiled
            with self._tracing:
                if kind not in self._programs:
                    with tf.init_scope():  # separate functions, even when called within a graph
                        self._programs[kind] = self._build_programs(signature_like(state, self._batch))
        return self._programs[kind]

    def _build_programs(self, batch: SearchState) -> _Programs:
        return _Programs(
            advance=TensorFlowFunction(self._model, self._advance, (batch, _NUMBER, _NUMBER)),
            keep=traced(select_from_batch, (batch, tf.TensorSpec([None], tf.int32))),
            result=traced(lambda state: self._search_of(state).result(state.progress), (batch,)),
        )

    def search_batch(
        self, ids_BS, seeds_B, constraints: BatchConstraints | None = None, prefix: Sequence[int] = ()
    ) -> SearchResult:
        """See the base class; it may be part of a graph."""
        state = self._started(ids_BS, seeds_B)
        if len(prefix):
            prefix_BP = tf.tile(tf.constant([prefix], tf.int32), [tf.shape(ids_BS)[0], 1])
            state = self._begin_with(state, prefix_BP, tf.constant([len(prefix)]), 0)
        if constraints is not None:
            state = self.constrain(state, constraints)
        programs = self._programs_of(state)
        state, _ = programs.advance(state, ops.max(state.limits), tf.constant(0))
        return programs.result(state)

    def _start_state(self, ids_BS: np.ndarray, seeds_B: np.ndarray) -> SearchState:
        candidates = () if self._shortlist is None else tf.constant(self._shortlist.candidates(ids_BS))
        return self._started(tf.constant(ids_BS), tf.constant(seeds_B, tf.int32), candidates)

    def _started(self, ids_BS, seeds_B, candidates_BV=()) -> SearchState:
        numbers = tf.nest.map_structure(
            lambda value, spec: _constant(value, spec.dtype), self._settings.numbers, _NUMBERS
        )
        return self._start(ids_BS, seeds_B, numbers, tf.constant(self._extra_length), candidates_BV)

    def _growing_state(self, ids_BS, seeds_B, numbers: SearchNumbers, extra_length, candidates_BV) -> SearchState:
        return self._initial_state(ids_BS, seeds_B, numbers, extra_length, candidates_BV)

    def _advance(self, state: SearchState, room, min_active) -> tuple[SearchState, Any]:
        token_ids = None if self._shortlist is None else self._union(state.candidates, prefix_of(state))
        widened = state._replace(progress=self._search_of(state).widen(state.progress, room))
        return self._search_until(widened, room, min_active, token_ids)

    def _union(self, candidates_BV, prefix_NP):
        """Returns the candidates of any sentence and the tokens of prefixes, (C,) int32, ascending."""
        is_first_V = ops.arange(self._vocab_size) < self._least_candidates
        union_V = ops.logical_or(ops.any(candidates_BV, axis=0), is_first_V)
        if prefix_NP is not None:
            union_V = ops.logical_or(union_V, ops.bincount(ops.ravel(prefix_NP), minlength=self._vocab_size) > 0)
        return tf.cast(tf.where(union_V)[:, 0], tf.int32)


def _constant(value: float, dtype: tf.DType) -> tf.Tensor:
    """Returns a number as a tensor; one too large for its dtype becomes infinity.

    The number is converted by numpy first: TensorFlow caches a tensor of every Python number, and seeds are many.
    """
    with np.errstate(over="ignore"):
        return tf.constant(np.asarray(value, dtype.as_numpy_dtype))
