"""Searching a batch some tokens at a time: short compiled programs, and a host that drops sentences that are done.

Legend: B sentences of a batch, S source length, N = B * K rows, P prefix length, J sentences that stay.
"""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from keras import ops

from t2t.data.columns import SEQUENCES, batch_dtype, item_shape
from t2t.decoding.constraints import forced, never_padding
from t2t.decoding.result import SearchResult, exists
from t2t.decoding.search import SearchSettings, rules
from t2t.decoding.state import repeat_for_beams, take_sentences
from t2t.decoding.step import NextToken
from t2t.models.base import SequenceModel
from t2t.specs.constants import INPUTS, PAD_ID

ROOM = 16
"""Room for outputs grows by so many tokens."""

STAYING = 0.5
"""When no more than this fraction of a batch is still being searched, the rest is dropped from it."""

SIZE_STEP = 8
"""A batch shrinks to a multiple of so many sentences, or to one of SMALL_SIZES: on processors, matrix kernels are made
for each new size, which costs as much as a step of the search."""

SMALL_SIZES = (1, 2, 4)
"""Some sentences go on to the limit long after the others: the last steps of a batch are many, and should be small."""


_NUMBER = tf.TensorSpec([], tf.int32)


class _Searched(NamedTuple):
    """A batch that is being searched; every tensor but the step has sentences, or their rows, as its first axis."""

    encoded: Any
    prefix: Any
    """(N, P) int32, beginnings of outputs; () where there are none."""
    limits: Any
    """(B,) int32."""
    places: Any
    """(B,) int32."""
    progress: Any


class Batch(NamedTuple):
    """Sentences that are searched together."""

    numbers: np.ndarray
    """(B,) int: which they are."""
    tokens: int
    """How many have been searched of each that is left."""
    searched: _Searched


Found = tuple[np.ndarray, SearchResult]
"""Numbers of sentences, and what was found for them, numpy arrays."""


class BatchSearch:
    """Searches batches of sentences; may be called from several threads at a time.

    A step of a search is some hundred operations on the rows of all beams. They run in a graph of unknown sizes, so
    that no batch waits for a compiler, caches grow with the outputs, and sentences that are done leave the batch.

    Args:
        model: with its weights, read anew at each call.
        settings: how to search.
        extra_length: outputs may be that much longer than their inputs.
    """

    def __init__(self, model: SequenceModel, settings: SearchSettings, extra_length: int):
        self._model, self._settings, self._extra_length = model, settings, extra_length
        self._has_inputs = model.spec.inputs is not None
        sources = (inputs_signature(model), tf.TensorSpec([None], tf.int32))
        self._begin = _traced(self._first, sources)
        self._batch = batch = tf.nest.map_structure(unknown_sizes, self._begin.structured_outputs)
        self._go_on = _traced(self._until, (batch, _NUMBER, _NUMBER))
        self._keep = _traced(_take, (batch, tf.TensorSpec([None], tf.int32)))
        self._result = _traced(lambda searched: self._rules(searched).result(searched.progress), (batch,))

    def begin(self, numbers_B: np.ndarray, ids_BS: np.ndarray, places_B: np.ndarray) -> Batch:
        """Returns a batch of which nothing has been searched.

        Args:
            numbers_B: (B,) int, what to call the sentences.
            ids_BS: (B, S) int32, sources, or beginnings of outputs where the model has no inputs; sources that are no
                text as `t2t.data.pipeline` gives them.
            places_B: (B,) int32, what names each sentence when sampling.
        """
        return Batch(numbers_B, 0, self._begin(tf.constant(ids_BS), tf.constant(places_B, tf.int32)))

    def go_on(self, batch: Batch) -> tuple[list[Found], Batch | None]:
        """Searches ROOM tokens further; returns what has been found, and the sentences that are still being searched.

        The smaller the batch, the less a token takes: sentences that are done leave it on the way, some at a time.
        """
        numbers, tokens, searched = batch
        tokens += ROOM
        found = []
        while True:
            enough = _size_below(int(len(numbers) * STAYING))
            searched, going = self._go_on(searched, tf.constant(tokens), tf.constant(enough))
            staying = going.numpy()
            no_room = staying.sum() > enough
            if not no_room:
                staying = _that_stay(staying, enough)
            if not staying.all():
                result = SearchResult(*(field.numpy()[~staying] for field in self._result(searched)))
                found.append((numbers[~staying], result))
                numbers = numbers[staying]
                if not len(numbers):
                    return found, None
                searched = self._keep(searched, tf.constant(np.flatnonzero(staying), tf.int32))
            if no_room:
                return found, Batch(numbers, tokens, searched)

    def steps(
        self, ids: Sequence[int] | np.ndarray, prefix: Sequence[int] = (), log_prob: float = 0.0
    ) -> Iterator[Any]:
        """Runs beam search for one sentence and yields its progress after each step.

        Args:
            ids: its source, or the beginning of its output where the model has no inputs.
            prefix: what its output begins with, where the model has inputs.
            log_prob: of what the output begins with, which the search itself takes as certain; part of all its
                log-probabilities and scores.
        """
        searched, go_on = self._begin(tf.constant([ids], tf.int32), tf.constant([0])), self._go_on
        alive = searched.progress.alive
        alive = alive._replace(log_probs=ops.where(exists(alive.log_probs), log_prob, alive.log_probs))
        searched = searched._replace(progress=searched.progress._replace(alive=alive))
        if len(prefix):
            rows = self._settings.rows_per_sentence
            limits = ops.maximum(searched.limits, len(prefix) + 1)
            searched = searched._replace(prefix=repeat_for_beams(tf.constant([prefix], tf.int32), rows), limits=limits)
            go_on = self._go_on_from_prefix
        for room in itertools.count(1):
            searched, going = go_on(searched, tf.constant(room), tf.constant(0))
            yield searched.progress
            if not going.numpy().any():
                return

    @functools.cached_property
    def _go_on_from_prefix(self) -> Callable:
        batch = self._batch._replace(prefix=tf.TensorSpec([None, None], tf.int32))
        return _traced(self._until, (batch, _NUMBER, _NUMBER))

    def whole(self, ids_BS, places_B) -> SearchResult:
        """Returns the same hypotheses as tensors, with no host between the steps: to be part of another graph."""
        searched = self._begin(ids_BS, places_B)
        searched, _ = self._go_on(searched, ops.max(searched.limits), tf.constant(0))
        return self._result(searched)

    def _first(self, ids_BS, places_B) -> _Searched:
        rows = self._settings.rows_per_sentence
        beams = rows if self._settings.searches_beams else 1
        encoded = self._model.encode({INPUTS: ids_BS}) if self._has_inputs else None
        keep_BS = self._model.source_embedding.keep(ids_BS) if self._has_inputs else ops.not_equal(ids_BS, PAD_ID)
        lengths_B = ops.sum(ops.cast(keep_BS, "int32"), axis=1)
        limits_B = ops.maximum(lengths_B + self._extra_length, 1)  # an empty beginning has no length
        if self._model.longest_sequence is not None:
            limits_B = ops.minimum(limits_B, self._model.longest_sequence)
        cache = self._model.init_cache(encoded, ops.shape(ids_BS)[0] * rows, None, beams=beams)
        prefix = () if self._has_inputs else repeat_for_beams(ids_BS, rows)
        # Programs take structures of tensors, in which () is what there is none of, as a memory without attention.
        kept = tf.nest.map_structure(lambda part: () if part is None else part, encoded)
        searched = _Searched(kept, prefix, limits_B, places_B, ())
        return searched._replace(progress=self._rules(searched).begin(cache, PAD_ID, width=0))

    def _until(self, searched: _Searched, room, enough) -> tuple[_Searched, Any]:
        """Goes on until there is no more room, or no more than `enough` sentences are left; tells which are."""
        encoded = self._model.prepare_steps(searched.encoded if self._has_inputs else None)
        prefix_NP = None if isinstance(searched.prefix, tuple) else searched.prefix

        def step(ids_N, position, cache):
            logits_NV, cache = self._model.decode_step(ids_N, position, cache, encoded)
            return forced(never_padding(NextToken(logits_NV, normalised=False)), prefix_NP, position), cache

        search = self._rules(searched)
        progress = search.advance(step, search.with_room(searched.progress, room), room, enough)
        return searched._replace(progress=progress), search.going(progress)

    def _rules(self, searched: _Searched):
        return rules(
            self._settings,
            vocab_size=self._model.spec.targets.vocab_size,
            limits=searched.limits,
            sentence_seeds=searched.places,
            reorder=self._model.reorder_cache,
        )


def _that_stay(going: np.ndarray, enough: int) -> np.ndarray:
    """Returns which sentences stay in the batch, (B,) bool: all, those that are going and a few that are done, or none.

    Args:
        going: (B,) bool.
        enough: a size of batches; so many may stay when others leave.
    """
    count = int(going.sum())
    if count > enough or count == 0:
        return np.full(len(going), count > 0)
    size = next((size for size in SMALL_SIZES if size >= count), -(-count // SIZE_STEP) * SIZE_STEP)
    staying = going.copy()
    staying[np.flatnonzero(~going)[: size - count]] = True
    return staying


def _size_below(count: int) -> int:
    """Returns the largest size of batches that is not above `count`; 0 where there is none."""
    return count // SIZE_STEP * SIZE_STEP or max((size for size in SMALL_SIZES if size <= count), default=0)


def inputs_signature(model: SequenceModel) -> tf.TensorSpec:
    """Returns the kind of tensor that batches of a model's inputs are, or of beginnings of its outputs."""
    spec = model.spec.inputs or model.spec.targets
    lengths = [None] if spec.kind in SEQUENCES else []
    return tf.TensorSpec([None, *lengths, *item_shape(spec)], tf.as_dtype(batch_dtype(spec)))


def _traced(function: Callable, signature: tuple) -> Any:
    return tf.function(function, input_signature=signature, autograph=False).get_concrete_function()


def unknown_sizes(spec: tf.TensorSpec) -> tf.TensorSpec:
    """Returns the kind of tensor that one of a state is at any step, given that before the first.

    The number of sentences changes, and so does an axis that begins with size 0.
    """
    sizes = [None if axis == 0 or size == 0 else size for axis, size in enumerate(spec.shape)]
    return tf.TensorSpec(sizes, spec.dtype)


def _take(searched: _Searched, chosen_J) -> _Searched:
    batch_size = ops.shape(searched.limits)[0]
    step = searched.progress[0]
    taken = take_sentences(searched._replace(progress=searched.progress[1:]), chosen_J, batch_size)
    return taken._replace(progress=type(searched.progress)(step, *taken.progress))


def together(batches: list[Batch]) -> Batch:
    """Returns the sentences of batches that have been searched equally far as one batch.

    Args:
        batches: the list is emptied, so that nothing holds what they were made of.
    """
    parts = [batch.searched for batch in batches]
    numbers, tokens = np.concatenate([batch.numbers for batch in batches]), batches[0].tokens
    batches.clear()
    if len(parts) == 1:
        return Batch(numbers, tokens, parts[0])
    step = parts[0].progress[0]
    joined = tf.nest.map_structure(_stacked, *(part._replace(progress=part.progress[1:]) for part in parts))
    return Batch(numbers, tokens, joined._replace(progress=type(parts[0].progress)(step, *joined.progress)))


def _stacked(*parts: tf.Tensor) -> tf.Tensor:
    """Returns tensors one after the other along their first axis, with zeros after those that are short in others."""
    widest = np.max([part.shape for part in parts], axis=0)[1:]
    pads = [[(0, 0), *((0, most - size) for most, size in zip(widest, part.shape[1:], strict=True))] for part in parts]
    return tf.concat([tf.pad(part, pad) for part, pad in zip(parts, pads, strict=True)], axis=0)
