"""How batches are searched, whatever runs it: the state that a search begins with, and its steps.

Legend: B sentences of a batch, S source length, N = B * K rows, P prefix length, T room for tokens, V vocabulary,
C tokens that are candidates of any sentence of the batch.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Self

import keras
import numpy as np
from keras import ops

from t2t.decoding.constraints.batch_constraints import BatchConstraints
from t2t.decoding.constraints.token_rules import forbid_padding
from t2t.decoding.coverage import covering, reorder_covered, start_coverage
from t2t.decoding.result import SearchResult, exists
from t2t.decoding.search import rules
from t2t.decoding.settings import SearchNumbers, SearchSettings
from t2t.decoding.state import repeat_for_beams
from t2t.decoding.step import NextToken
from t2t.inference.engine import BatchHypotheses, Constraints
from t2t.inference.rows import Batched
from t2t.inference.search_batch import SearchState, automaton_of, prefix_of
from t2t.inference.shortlist.shortlist import Shortlist
from t2t.models.base import SequenceModel
from t2t.specs.constants import INPUTS, PAD_ID


class BatchSearch(ABC):
    """Searches batches of sentences; may be called from several threads at a time.

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

    def with_settings(self, settings: SearchSettings, extra_length: int) -> Self:
        """Returns a search with other settings of the same structure, without compiling anything."""
        other = copy.copy(self)
        other._settings, other._extra_length = settings, extra_length
        return other

    @abstractmethod
    def search(
        self,
        batches: Sequence[Batched],
        places: np.ndarray,
        prefixes: Sequence[Sequence[int]] | None = None,
        constraints: BatchConstraints | None = None,
        *,
        weights: np.ndarray,
        max_ids: int,
    ) -> Iterator[list[BatchHypotheses]]:
        """Yields numbers of rows with their hypotheses, in any order.

        The hypotheses of a row do not depend on other rows.

        Args:
            batches: numbers of rows, and the rows: (B, S) int32, sources, or beginnings of outputs where the model has
                no inputs; sources that are no text as `t2t.data.batch_arrays` gives them.
            places: of each row, int32, what names it when sampling.
            prefixes: of each row, the ids that its output begins with, where the model has inputs; None for none.
            constraints: what the output of each row may be; None for anything.
            weights: (rows,) int, ids that each row counts for.
            max_ids: most ids of a batch.
        """

    @abstractmethod
    def search_batch(self, ids_BS, places_B, constraints: BatchConstraints | None = None) -> SearchResult:
        """Searches one batch to its end and returns the hypotheses as tensors, see `search`.

        Of outputs there is room for as long a one as there may be.
        """

    @abstractmethod
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

    @abstractmethod
    def result(self, state: SearchState) -> SearchResult:
        """Returns the finished hypotheses, numpy arrays."""

    def _initial_state(
        self, ids_BS, places_B, numbers: SearchNumbers, extra_length, candidates_BV, room: int | None = None
    ) -> SearchState:
        """Returns the state before the first token, with caches that grow, or have `room` T from the start."""
        rows = self._settings.rows_per_sentence
        beams = rows if self._settings.uses_beam_search else 1
        encoded = self._model.encode({INPUTS: ids_BS}) if self._has_inputs else None
        keep_BS = self._model.source_embedding.keep(ids_BS) if self._has_inputs else ops.not_equal(ids_BS, PAD_ID)
        lengths_B = ops.sum(ops.cast(keep_BS, "int32"), axis=1)
        limits_B = ops.maximum(lengths_B + extra_length, 1)  # an empty beginning has no length
        if self._model.longest_sequence is not None:
            limits_B = ops.minimum(limits_B, self._model.longest_sequence)
        cache = self._model.init_cache(encoded, ops.shape(ids_BS)[0] * rows, room, beams=beams)
        if self._settings.counts_coverage:
            cache = start_coverage(cache, keep_BS, rows)
        prefix = () if self._has_inputs else repeat_for_beams(ids_BS, rows)
        # Compiled functions take structures of tensors, without None: () replaces a missing memory.
        kept = keras.tree.map_structure(lambda part: () if part is None else part, encoded)
        state = SearchState(numbers, (), kept, prefix, limits_B, places_B, candidates_BV, ())
        return state._replace(progress=self._rules(state).start(cache, width=room or 0))

    def _begin_with(self, state: SearchState, prefix_BP, lengths_B) -> SearchState:
        """Prescribes the beginnings of outputs, `lengths_B` ids long; each output may have one id more."""
        rows = self._settings.rows_per_sentence
        limits_B = ops.maximum(state.limits, lengths_B + 1)
        return state._replace(prefix=repeat_for_beams(prefix_BP, rows), limits=limits_B)

    def constrain(self, state: SearchState, constraints: BatchConstraints) -> SearchState:
        """Returns the initial state of a search of outputs that keep to constraints."""
        automaton = keras.tree.map_structure(ops.convert_to_tensor, constraints.automaton)
        limits_B = ops.maximum(state.limits, constraints.shortest)
        states_BS = ops.convert_to_tensor(constraints.first_states)
        progress = self._rules(state).constrain(state.progress, states_BS)
        return state._replace(automaton=automaton, limits=limits_B, progress=progress)

    def _begin_at(self, state: SearchState, log_prob: float) -> SearchState:
        """Adds the log-probability of a prefix to those of a beam."""
        active = state.progress.active
        active = active._replace(log_probs=ops.where(exists(active.log_probs), log_prob, active.log_probs))
        return state._replace(progress=state.progress._replace(active=active))

    def _search_until(self, state: SearchState, room, min_active, token_ids=None) -> tuple[SearchState, Any]:
        """Advances to `room` tokens or until at most `min_active` sentences are unfinished; returns which are.

        The progress has places for so many tokens. `token_ids` (C,) int32, ascending, are all that may be written, of
        candidates and prefixes; None for every id.
        """
        allowed_NC = None
        if token_ids is not None:
            allowed_BC = ops.take(state.candidates, token_ids, axis=1)
            allowed_NC = repeat_for_beams(allowed_BC, self._settings.rows_per_sentence)
        encoded = self._model.prepare_decode(state.encoded if self._has_inputs else None, token_ids, allowed_NC)

        def step(ids_N, position, cache):
            logits, cache = self._model.decode_step(ids_N, position, cache, encoded)
            return forbid_padding(NextToken(logits, normalised=False, ids=token_ids)), cache

        if self._settings.counts_coverage:
            step = covering(step, self._settings.coverage)
        search = self._rules(state)
        progress = search.advance(step, state.progress, room, min_active)
        return state._replace(progress=progress), search.active_sentences(progress)

    @property
    def _least_candidates(self) -> int:
        """How many of the lowest ids always have scores, whatever the shortlist.

        So a step has as many scores as the search selects from; a sentence may have fewer candidates.
        """
        return max(2 * self._settings.rows_per_sentence + 1, self._settings.top_k)

    def _rules(self, state: SearchState) -> Any:
        """Returns the `BeamSearch` or `RollOut` of a state."""
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
