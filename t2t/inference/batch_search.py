"""What `growing_search` and `padded_search` share: the state of a batch, its first state, the steps; joined batches.

Legend: B sentences of a batch, S source length, N = B * K rows, P prefix length, T room for tokens, J selected
sentences, V vocabulary, C tokens that are candidates of any sentence of the batch.
"""

import copy
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import keras
import numpy as np
from keras import ops

from t2t.inference.engine import BatchHypotheses, Constraints
from t2t.inference.rows import Batched
from t2t.inference.shortlist import Shortlist
from t2t.layers.beams import repeat_for_beams, select_sentences
from t2t.layers.mode import in_mode
from t2t.models.base import SequenceModel
from t2t.search.constraints import BatchConstraints, forbid_padding
from t2t.search.coverage import covering, reorder_covered, start_coverage
from t2t.search.methods import search_of
from t2t.search.result import SearchResult, exists
from t2t.search.settings import SamplingNumbers, SearchSettings, sampling_numbers
from t2t.search.step import NextToken
from t2t.specs import INPUTS, PAD_ID


class SearchState(NamedTuple):
    """State of the search of a batch; all but alpha, automaton and step have sentences, or rows, as first axis."""

    alpha: Any
    """() float32: exponent of the length penalty."""
    automaton: Any
    """`Automaton` of what may be written; () for anything."""
    encoded: Any
    prefix: Any
    """(N, P) int32, zero padded: beginnings of outputs; () where there are none."""
    limits: Any
    """(B,) int32: maximum length of the outputs, end of sequence included."""
    seeds: Any
    """(B,) int32: sampling seeds of the sentences."""
    sampling: Any
    """`SamplingNumbers`, how each sentence is sampled."""
    candidates: Any
    """(B, V) bool: the tokens that may be written; () for all."""
    progress: Any


class SearchBatch(NamedTuple):
    """Sentences that are searched as one batch."""

    indices: np.ndarray
    """(B,) int: indices of the sentences."""
    tokens: int
    """Tokens searched so far."""
    state: SearchState


class SearchRows(NamedTuple):
    """What is asked of the outputs of rows."""

    seeds: np.ndarray
    """(rows,) int: the sampling seed of each, used with that of the settings."""
    prefixes: Sequence[Sequence[int]] | None = None
    """The ids that the output of each begins with, if the model has inputs; None for none."""
    constraints: BatchConstraints | None = None
    """On the output of each; None for none."""
    sampling: SamplingNumbers | None = None
    """How each is sampled, (rows,); None for how the settings of the search say."""

    @classmethod
    def build(
        cls,
        seeds: Any,
        prefixes: Sequence[Sequence[int]] | None,
        constraints: Constraints | None,
        vocab_size: int,
        row_settings: Sequence[SearchSettings] | None = None,
    ) -> Self:
        """Returns them for the constraints and settings of a request; raises as `BatchConstraints.build`."""
        built = None if constraints is None else BatchConstraints.build(constraints, vocab_size, prefixes)
        sampling = None if row_settings is None else sampling_numbers(row_settings)
        return cls(np.asarray(seeds), prefixes, built, sampling)

    def select(self, indices: np.ndarray) -> "SearchRows":
        """Returns what is asked of some of the rows."""
        prefixes = None if self.prefixes is None else [self.prefixes[index] for index in indices]
        constraints = None if self.constraints is None else self.constraints.select(indices)
        sampling = None if self.sampling is None else SamplingNumbers(*(one[indices] for one in self.sampling))
        return SearchRows(self.seeds[indices], prefixes, constraints, sampling)


def prefix_of(state: SearchState) -> Any:
    """Returns the beginnings of outputs, (N, P), or None."""
    return None if isinstance(state.prefix, tuple) else state.prefix


def select_from_batch(state: SearchState, chosen_J) -> SearchState:
    """Returns the state of some of the sentences, `chosen_J` (J,) int32, in this order."""
    batch_size = ops.shape(state.limits)[0]
    return _map_sentences(lambda part: select_sentences(part, chosen_J, batch_size), state)


def _map_sentences(function: Callable, *states: SearchState) -> SearchState:
    """Applies a function to the parts with sentences on axis 0; takes the others from the first state."""
    first, progress = states[0], states[0].progress
    found = function(*(state._replace(alpha=(), automaton=(), progress=state.progress[1:]) for state in states))
    whole = type(progress)(progress[0], *found.progress)
    return found._replace(alpha=first.alpha, automaton=first.automaton, progress=whole)


def concat_batches(batches: list[SearchBatch]) -> SearchBatch:
    """Concatenates batches that have searched the same number of tokens.

    Args:
        batches: the list is emptied, so that the memory of its parts can be freed.
    """
    parts = [batch.state for batch in batches]
    indices, tokens = np.concatenate([batch.indices for batch in batches]), batches[0].tokens
    batches.clear()
    if len(parts) == 1:
        return SearchBatch(indices, tokens, parts[0])
    return SearchBatch(
        indices, tokens, _map_sentences(functools.partial(keras.tree.map_structure, _concat_padded), *parts)
    )


def _concat_padded(*parts: Any) -> Any:
    """Concatenates along the first axis; shorter other axes are zero-padded."""
    widest = np.max([part.shape for part in parts], axis=0)[1:]

    def widened(part: Any) -> Any:
        missing = widest - part.shape[1:]
        return ops.pad(part, [(0, 0), *((0, size) for size in missing)]) if any(missing) else part

    return ops.concatenate([widened(part) for part in parts], axis=0)


class BatchSearch(ABC):
    """Searches batches of sentences; may be called from several threads at a time.

    What is compiled depends on `settings.structure` alone, see `with_settings`.

    Args:
        model: its current weights are read at each call.
        settings: how to search.
        extra_length: by how many ids an output may be longer than its input and its prefix.
        shortlist: gives the candidates of each sentence, if the model `selects_tokens`; None for all tokens.
    """

    def __init__(
        self, model: SequenceModel, settings: SearchSettings, extra_length: int, shortlist: Shortlist | None = None
    ):
        self._model, self._settings, self._extra_length = model, settings, extra_length
        self._code_length = 0
        self._shortlist, self._vocab_size = shortlist, model.spec.targets.vocab_size
        self._has_inputs = model.spec.inputs is not None

    def with_settings(self, settings: SearchSettings, extra_length: int, code_length: int = 0) -> Self:
        """Returns a search with other settings of the same structure, without compiling anything.

        Args:
            settings: how to search.
            extra_length: by how many ids an output may be longer than its input and its prefix.
            code_length: how many ids of each prefix do not count for that, as the input has a language code, too.
        """
        other = copy.copy(self)
        other._settings, other._extra_length, other._code_length = settings, extra_length, code_length
        return other

    @abstractmethod
    def search(
        self,
        batches: Sequence[Batched],
        asked: SearchRows,
        sizes: np.ndarray,
        max_ids: int,
    ) -> Iterator[list[BatchHypotheses]]:
        """Yields indices of rows with their hypotheses, in any order.

        The hypotheses of a row do not depend on other rows.

        Args:
            batches: (indices of rows, rows) pairs. Rows are (B, S) int32: sources, or output prefixes if the model has
                no inputs; sources other than text are arrays as in `t2t.data.reading.batch_arrays`.
            asked: of all rows.
            sizes: (rows,) int, size of each row in ids, see `t2t.inference.rows.row_sizes`.
            max_ids: maximum ids of a batch, padding included.
        """

    @abstractmethod
    def search_batch(
        self, ids_BS, seeds_B, constraints: BatchConstraints | None = None, prefix: Sequence[int] = ()
    ) -> SearchResult:
        """Searches one batch to its end and returns the hypotheses as tensors, see `search`.

        If the model has inputs, all outputs begin with the ids of `prefix`, a language code. Buffers have room for the
        longest output that is allowed.
        """

    @abstractmethod
    def steps(
        self,
        ids: Sequence[int] | np.ndarray,
        asked: SearchRows,
        log_prob: float = 0.0,
    ) -> Iterator[SearchState]:
        """Searches one sentence and yields the state after each step.

        Args:
            ids: its source, or the prefix of its output where the model has no inputs.
            asked: of this row.
            log_prob: of its prefix; added to the log-probabilities of a beam, as the search counts a prefix as certain.
        """

    @abstractmethod
    def result(self, state: SearchState) -> SearchResult:
        """Returns the finished hypotheses, numpy arrays."""

    def _initial_state(
        self, ids_BS, seeds_B, alpha, sampling: SamplingNumbers, extra_length, candidates_BV, room: int | None = None
    ) -> SearchState:
        """Returns the state before the first token; its caches have `room` for T tokens, or grow if it is None.

        `sampling` is of each sentence, or (1,) for all.
        """
        rows = self._settings.rows_per_sentence
        beams = rows if self._settings.uses_beam_search else 1
        encoded = self._model.encode({INPUTS: ids_BS}) if self._has_inputs else None
        keep_BS = self._model.source_embedding.keep(ids_BS) if self._has_inputs else ops.not_equal(ids_BS, PAD_ID)
        lengths_B = ops.sum(ops.cast(keep_BS, "int32"), axis=1)
        limits_B = ops.maximum(lengths_B + extra_length, 1)  # an empty prefix has length 0
        if self._model.longest_sequence is not None:
            limits_B = ops.minimum(limits_B, self._model.longest_sequence)
        cache = self._model.init_cache(encoded, ops.shape(ids_BS)[0] * rows, room, beams=beams)
        if self._settings.counts_coverage:
            attended_BS = self._model.source_keep(ids_BS) if self._has_inputs else keep_BS
            cache = start_coverage(cache, attended_BS, rows)
        prefix = () if self._has_inputs else repeat_for_beams(ids_BS, rows)
        # Compiled functions take structures of tensors, without None: () replaces a missing memory.
        kept = keras.tree.map_structure(lambda part: () if part is None else part, encoded)
        sampling = SamplingNumbers(*(ops.broadcast_to(one, ops.shape(seeds_B)) for one in sampling))
        state = SearchState(alpha, (), kept, prefix, limits_B, seeds_B, sampling, candidates_BV, ())
        return state._replace(progress=self._search_of(state).start(cache, width=room or 0))

    def _begin_with(self, state: SearchState, prefix_BP, lengths_B, added_B) -> SearchState:
        """Forces outputs to begin with prefixes of `lengths_B` ids, of which `added_B` add to their limits.

        There is room for one id more.
        """
        rows = self._settings.rows_per_sentence
        limits_B = state.limits + added_B
        if self._model.longest_sequence is not None:
            limits_B = ops.minimum(limits_B, self._model.longest_sequence)
        limits_B = ops.maximum(limits_B, lengths_B + 1)
        return state._replace(prefix=repeat_for_beams(prefix_BP, rows), limits=limits_B)

    def constrain(self, state: SearchState, constraints: BatchConstraints) -> SearchState:
        """Returns the initial state of a search for outputs that satisfy constraints."""
        automaton = keras.tree.map_structure(ops.convert_to_tensor, constraints.automaton)
        limits_B = ops.maximum(state.limits, constraints.shortest)
        states_BS = ops.convert_to_tensor(constraints.first_states)
        progress = self._search_of(state).constrain(state.progress, states_BS)
        return state._replace(automaton=automaton, limits=limits_B, progress=progress)

    def _begin_at(self, state: SearchState, log_prob: float) -> SearchState:
        """Adds the log-probability of a prefix to those of a beam."""
        active = state.progress.active
        active = active._replace(log_probs=ops.where(exists(active.log_probs), log_prob, active.log_probs))
        return state._replace(progress=state.progress._replace(active=active))

    def _search_until(
        self, state: SearchState, room, min_active, weights: Any, token_ids=None
    ) -> tuple[SearchState, Any]:
        """Advances to `room` tokens or until at most `min_active` sentences are unfinished; returns which are.

        Args:
            state: of the batch, with buffers for `room` tokens.
            room: () int32.
            min_active: () int32.
            weights: what the model's `step_weights` returned; () to call it here, as is needed with `token_ids`.
            token_ids: (C,) int32, ascending, the only ids that may be written, candidates and prefixes; None for all.
        """
        allowed_NC = None
        if token_ids is not None:
            allowed_BC = ops.take(state.candidates, token_ids, axis=1)
            allowed_NC = repeat_for_beams(allowed_BC, self._settings.rows_per_sentence)
        encoded = state.encoded if self._has_inputs else None
        encoded = self._model.prepare_decode(encoded, token_ids, allowed_NC, weights or None)

        def step(ids_N, position, cache):
            logits, cache = self._model.decode_step(ids_N, position, cache, encoded)
            return forbid_padding(NextToken(logits, normalised=False, ids=token_ids)), cache

        if self._settings.counts_coverage:
            step = covering(step, self._settings.coverage)
        search = self._search_of(state)
        with in_mode(rows_per_sentence=self._settings.rows_per_sentence):
            progress = search.advance(step, state.progress, room, min_active)
        return state._replace(progress=progress), search.active_sentences(progress)

    @property
    def _alpha(self) -> np.ndarray:
        """The exponent of the length penalty, () float32; infinity if it is too large."""
        with np.errstate(over="ignore"):
            return np.asarray(self._settings.alpha, np.float32)

    @property
    def _least_candidates(self) -> int:
        """How many of the lowest ids always have scores, whatever the shortlist.

        So a step has enough scores for the search to select from, even if a sentence has fewer candidates.
        """
        return 2 * self._settings.rows_per_sentence + 1

    def _search_of(self, state: SearchState) -> Any:
        """Returns the `BeamSearch` or `TokenByToken` of a state."""
        reorder = self._model.reorder_cache
        return search_of(
            self._settings,
            vocab_size=self._vocab_size,
            limits=state.limits,
            sentence_seeds=state.seeds,
            alpha=state.alpha,
            sampling=state.sampling,
            reorder=reorder_covered(reorder) if self._settings.counts_coverage else reorder,
            prefix=prefix_of(state),
            automaton=state.automaton or None,
        )
