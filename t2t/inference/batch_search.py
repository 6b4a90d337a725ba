"""Searches one batch TOKENS_PER_CALL tokens at a time and drops finished sentences between compiled calls.

Legend: B sentences of a batch, S source length, N = B * K rows, P prefix length, J selected sentences, V vocabulary,
C tokens that are candidates of any sentence of the batch.
"""

import copy
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import tensorflow as tf
from keras import ops

from t2t.decoding.constraints.batch_constraints import BatchConstraints
from t2t.decoding.constraints.token_rules import forbid_padding
from t2t.decoding.coverage import covering, reorder_covered, start_coverage
from t2t.decoding.result import SearchResult, exists
from t2t.decoding.search import rules
from t2t.decoding.settings import SearchNumbers, SearchSettings
from t2t.decoding.state import repeat_for_beams
from t2t.decoding.step import NextToken
from t2t.inference.devices import ModelFunction, traced
from t2t.inference.engine import BatchHypotheses, Constraints
from t2t.inference.rows import padded
from t2t.inference.search_batch import Batch, SearchState, automaton_of, prefix_of, select_from_batch
from t2t.inference.search_signatures import inputs_signature, signature_like, unknown_sizes
from t2t.inference.shortlist.shortlist import Shortlist
from t2t.models.base import SequenceModel
from t2t.specs.constants import INPUTS, PAD_ID

TOKENS_PER_CALL = 16
"""Tokens that one call searches; buffers of outputs grow by this many."""

MIN_ACTIVE_SHARE = 0.5
"""When no more than this fraction of a batch is still being searched, the rest is dropped from it."""

SIZE_STEP = 8
"""A batch shrinks to a multiple of this, or to one of SMALL_SIZES: on CPUs, each new size costs as much as a step, for
new matrix kernels."""

SMALL_SIZES = (1, 2, 4)
"""For the many last steps of a batch, of few sentences that go on to the limit."""

_NUMBER, _FLOAT = tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.float32)
_NUMBERS = SearchNumbers(_FLOAT, _FLOAT, _FLOAT, seed=tf.TensorSpec([], tf.uint32))


class _Programs(NamedTuple):
    """Compiled functions of states of one structure."""

    advance: Callable
    """Searches up to a number of tokens, see `BatchSearch._search_until`."""
    keep: Callable
    """Selects sentences."""
    result: Callable
    """Returns the hypotheses."""


class BatchSearch:
    """Searches batches of sentences; may be called from several threads at a time.

    A step runs in a graph of unknown sizes, so that no batch waits for a compiler, caches grow with the outputs, and
    finished sentences leave the batch.

    What is compiled depends on `settings.structure` alone, see `with_settings`.

    Args:
        model: its current weights are read at each call.
        settings: how to search.
        extra_length: outputs may be that much longer than their inputs.
        shortlist: gives the candidates of each sentence; None for all tokens. The model `selects_tokens`.
    """

    def __init__(
        self, model: SequenceModel, settings: SearchSettings, extra_length: int, shortlist: Shortlist | None = None
    ):
        self._model, self._settings, self._extra_length = model, settings, extra_length
        self._shortlist, self._vocab_size = shortlist, model.spec.targets.vocab_size
        self._has_inputs = model.spec.inputs is not None
        candidates = () if shortlist is None else tf.TensorSpec([None, self._vocab_size], tf.bool)
        sources = (inputs_signature(model), tf.TensorSpec([None], tf.int32), _NUMBERS, _NUMBER, candidates)
        self._start = ModelFunction(model, self._initial_state, sources)
        self._batch = tf.nest.map_structure(unknown_sizes, self._start.structured_outputs)
        self._programs: dict[tuple[bool, type], _Programs] = {}
        self._tracing = threading.Lock()

    def with_settings(self, settings: SearchSettings, extra_length: int) -> Self:
        """Returns a search with other settings of the same structure, without compiling anything."""
        other = copy.copy(self)
        other._settings, other._extra_length = settings, extra_length
        return other

    def start(
        self,
        numbers_B: np.ndarray,
        ids_BS: np.ndarray,
        places_B: np.ndarray,
        prefixes: Sequence[Sequence[int]] | None = None,
        constraints: BatchConstraints | None = None,
    ) -> Batch:
        """Returns a batch in its initial state.

        Args:
            numbers_B: (B,) int, what to call the sentences.
            ids_BS: (B, S) int32, sources, or beginnings of outputs where the model has no inputs; sources that are no
                text as `t2t.data.batch_arrays` gives them.
            places_B: (B,) int32, what names each sentence when sampling.
            prefixes: B lists of ids that outputs begin with, where the model has inputs; None for none.
            constraints: what outputs may be, of B sentences; None for anything.
        """
        state = self._start_state(ids_BS, places_B)
        if prefixes is not None:
            state = self._begin_with(state, tf.constant(padded(prefixes)), [len(prefix) for prefix in prefixes])
        return Batch(numbers_B, 0, state if constraints is None else self.constrain(state, constraints))

    def advance(self, batch: Batch) -> tuple[list[BatchHypotheses], Batch | None]:
        """Searches TOKENS_PER_CALL more tokens. Returns finished hypotheses and the batch of unfinished sentences.

        Finished sentences leave the batch in groups, since smaller batches take less time per token.
        """
        numbers, tokens, state = batch
        programs = self._programs_of(state)
        tokens += TOKENS_PER_CALL
        found = []
        while True:
            min_active = _max_size_below(int(len(numbers) * MIN_ACTIVE_SHARE))
            state, active = programs.advance(state, tf.constant(tokens), tf.constant(min_active))
            kept = active.numpy()
            reached_tokens = kept.sum() > min_active
            if not reached_tokens:
                kept = _select_active(kept, min_active)
            if not kept.all():
                result = SearchResult(*(field[~kept] for field in self.result(state)))
                found.append((numbers[~kept], result))
                numbers = numbers[kept]
                if not len(numbers):
                    return found, None
                state = programs.keep(state, tf.constant(np.flatnonzero(kept), tf.int32))
            if reached_tokens:
                return found, Batch(numbers, tokens, state)

    def steps(
        self,
        ids: Sequence[int] | np.ndarray,
        prefix: Sequence[int] = (),
        log_prob: float = 0.0,
        place: int = 0,
        constraints: Constraints | None = None,
    ) -> Iterator[SearchState]:
        """Searches one sentence and yields the state after each step.

        Args:
            ids: its source, or the prefix of its output where the model has no inputs.
            prefix: of its output, where the model has inputs.
            log_prob: of the prefix, added to all log-probabilities of a beam; the search itself takes it as certain.
            place: what names the sentence when sampling.
            constraints: one, what the output may be; None for anything.
        """
        state = self._start_state(np.array([ids], np.int32), np.array([place]))
        if log_prob:
            active = state.progress.active
            active = active._replace(log_probs=ops.where(exists(active.log_probs), log_prob, active.log_probs))
            state = state._replace(progress=state.progress._replace(active=active))
        if len(prefix):
            state = self._begin_with(state, tf.constant([prefix], tf.int32), [len(prefix)])
        if constraints is not None:
            built = BatchConstraints.build(constraints, self._vocab_size, [prefix])
            state = self.constrain(state, built)
        for room in itertools.count(1):
            state, active = self._programs_of(state).advance(state, tf.constant(room), tf.constant(0))
            yield state
            if not active.numpy().any():
                return

    def result(self, state: SearchState) -> SearchResult:
        """Returns the finished hypotheses, numpy arrays."""
        return SearchResult(*(field.numpy() for field in self._programs_of(state).result(state)))

    def _begin_with(self, state: SearchState, prefix_BP: tf.Tensor, lengths: Sequence[int]) -> SearchState:
        """Prescribes the beginnings of outputs, each of which may be longer by one id at least."""
        limits_B = ops.maximum(state.limits, tf.constant(lengths) + 1)
        rows = self._settings.rows_per_sentence
        return state._replace(prefix=repeat_for_beams(prefix_BP, rows), limits=limits_B)

    def constrain(self, state: SearchState, constraints: BatchConstraints) -> SearchState:
        """Returns the initial state of a search of outputs that keep to constraints."""
        automaton = tf.nest.map_structure(tf.convert_to_tensor, constraints.automaton)
        limits_B = ops.maximum(state.limits, constraints.shortest)
        states_BS = tf.convert_to_tensor(constraints.first_states)
        progress = self._rules(state).constrain(state.progress, states_BS)
        return state._replace(automaton=automaton, limits=limits_B, progress=progress)

    def _programs_of(self, state: SearchState) -> _Programs:
        """Returns the compiled functions for states with prefixes, or without, and of one kind of automaton or none."""
        kind = prefix_of(state) is not None, type(state.automaton)
        with self._tracing:
            if kind not in self._programs:
                with tf.init_scope():  # functions of their own, also where they are called in a graph
                    self._programs[kind] = self._build_programs(signature_like(state, self._batch))
        return self._programs[kind]

    def _build_programs(self, batch: SearchState) -> _Programs:
        return _Programs(
            advance=ModelFunction(self._model, self._search_until, (batch, _NUMBER, _NUMBER)),
            keep=traced(select_from_batch, (batch, tf.TensorSpec([None], tf.int32))),
            result=traced(lambda state: self._rules(state).result(state.progress), (batch,)),
        )

    def search_batch(
        self, ids_BS, places_B, constraints: BatchConstraints | None = None, prefix: Sequence[int] = ()
    ) -> SearchResult:
        """Searches to the end inside one graph and returns the same hypotheses as tensors; all begin with `prefix`."""
        state = self._started(ids_BS, places_B)
        if len(prefix):
            prefix_BP = tf.tile(tf.constant([prefix], tf.int32), [tf.shape(ids_BS)[0], 1])
            state = self._begin_with(state, prefix_BP, [len(prefix)])
        if constraints is not None:
            state = self.constrain(state, constraints)
        programs = self._programs_of(state)
        state, _ = programs.advance(state, ops.max(state.limits), tf.constant(0))
        return programs.result(state)

    def _start_state(self, ids_BS: np.ndarray, places_B: np.ndarray) -> SearchState:
        candidates = () if self._shortlist is None else tf.constant(self._shortlist.candidates(ids_BS))
        return self._started(tf.constant(ids_BS), tf.constant(places_B, tf.int32), candidates)

    def _started(self, ids_BS, places_B, candidates_BV=()) -> SearchState:
        numbers = tf.nest.map_structure(
            lambda value, spec: _constant(value, spec.dtype), self._settings.numbers, _NUMBERS
        )
        return self._start(ids_BS, places_B, numbers, tf.constant(self._extra_length), candidates_BV)

    def _initial_state(self, ids_BS, places_B, numbers: SearchNumbers, extra_length, candidates_BV) -> SearchState:
        rows = self._settings.rows_per_sentence
        beams = rows if self._settings.uses_beam_search else 1
        encoded = self._model.encode({INPUTS: ids_BS}) if self._has_inputs else None
        keep_BS = self._model.source_embedding.keep(ids_BS) if self._has_inputs else ops.not_equal(ids_BS, PAD_ID)
        lengths_B = ops.sum(ops.cast(keep_BS, "int32"), axis=1)
        limits_B = ops.maximum(lengths_B + extra_length, 1)  # an empty beginning has no length
        if self._model.longest_sequence is not None:
            limits_B = ops.minimum(limits_B, self._model.longest_sequence)
        cache = self._model.init_cache(encoded, ops.shape(ids_BS)[0] * rows, None, beams=beams)
        if self._settings.counts_coverage:
            cache = start_coverage(cache, keep_BS, rows)
        prefix = () if self._has_inputs else repeat_for_beams(ids_BS, rows)
        # Programs take structures of tensors, in which () is what there is none of, as a memory without attention.
        kept = tf.nest.map_structure(lambda part: () if part is None else part, encoded)
        state = SearchState(numbers, (), kept, prefix, limits_B, places_B, candidates_BV, ())
        return state._replace(progress=self._rules(state).start(cache, width=0))

    def _search_until(self, state: SearchState, room, min_active) -> tuple[SearchState, Any]:
        """Advances to `room` tokens or until at most `min_active` sentences are unfinished; returns which are."""
        token_ids, allowed_NC = None, None
        if self._shortlist is not None:
            token_ids = self._union(state.candidates, prefix_of(state))
            allowed_BC = ops.take(state.candidates, token_ids, axis=1)
            allowed_NC = repeat_for_beams(allowed_BC, self._settings.rows_per_sentence)
        encoded = self._model.prepare_decode(state.encoded if self._has_inputs else None, token_ids, allowed_NC)

        def step(ids_N, position, cache):
            logits, cache = self._model.decode_step(ids_N, position, cache, encoded)
            return forbid_padding(NextToken(logits, normalised=False, ids=token_ids)), cache

        if self._settings.counts_coverage:
            step = covering(step, self._settings.coverage)
        search = self._rules(state)
        progress = search.advance(step, search.widen(state.progress, room), room, min_active)
        return state._replace(progress=progress), search.active_sentences(progress)

    def _union(self, candidates_BV, prefix_NP):
        """Returns the candidates of any sentence and the tokens of prefixes, (C,) int32, ascending."""
        # Also the first ids, so that there are as many as a search asks for at once; a sentence may have fewer.
        count = max(2 * self._settings.rows_per_sentence + 1, self._settings.top_k)
        union_V = ops.logical_or(ops.any(candidates_BV, axis=0), ops.arange(self._vocab_size) < count)
        if prefix_NP is not None:
            union_V = ops.logical_or(union_V, ops.bincount(ops.ravel(prefix_NP), minlength=self._vocab_size) > 0)
        return tf.cast(tf.where(union_V)[:, 0], tf.int32)

    def _rules(self, state: SearchState):
        reorder = self._model.reorder_cache
        return rules(
            self._settings,
            vocab_size=self._vocab_size,
            limits=state.limits,
            sentence_seeds=state.places,
            numbers=state.numbers,
            reorder=reorder_covered(reorder) if self._settings.counts_coverage else reorder,
            prefix=prefix_of(state),
            automaton=automaton_of(state),
        )


def _constant(value: float, dtype: tf.DType) -> tf.Tensor:
    """Returns a tensor of a number; of a large one, infinity.

    Not of a Python number: TensorFlow keeps a tensor of each that it has met, and seeds are many.
    """
    with np.errstate(over="ignore"):
        return tf.constant(np.asarray(value, dtype.as_numpy_dtype))


def _select_active(active: np.ndarray, min_active: int) -> np.ndarray:
    """Returns which sentences stay in the batch, (B,) bool: all, the unfinished and a few finished, or none.

    Args:
        active: (B,) bool.
        min_active: allowed batch size that stays when finished sentences leave.
    """
    count = int(active.sum())
    if count > min_active or count == 0:
        return np.full(len(active), count > 0)
    size = next((size for size in SMALL_SIZES if size >= count), -(-count // SIZE_STEP) * SIZE_STEP)
    kept = active.copy()
    kept[np.flatnonzero(~active)[: size - count]] = True
    return kept


def _max_size_below(count: int) -> int:
    """Returns the largest size of batches that is not above `count`; 0 where there is none."""
    return count // SIZE_STEP * SIZE_STEP or max((size for size in SMALL_SIZES if size <= count), default=0)
