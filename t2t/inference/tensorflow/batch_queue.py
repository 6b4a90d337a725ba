"""Searches several batches in turn and concatenates their unfinished sentences.

Sentences finish one by one, and a step for few sentences takes nearly as long as one for many. Each batch is advanced
by some tokens (`PiecewiseSearch.advance`); unfinished batches of the same number of tokens are concatenated.
"""

import collections
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from t2t.inference.batch_search import SearchBatch, concat_batches
from t2t.inference.engine import BatchHypotheses
from t2t.inference.rows import Batched
from t2t.search.constraints import BatchConstraints


class PiecewiseSearch(Protocol):
    """Searches batches some tokens at a time, see `TensorFlowBatchSearch`."""

    def start(
        self,
        indices_B: np.ndarray,
        ids_BS: np.ndarray,
        seeds_B: np.ndarray,
        prefixes: Sequence[Sequence[int]] | None = None,
        constraints: BatchConstraints | None = None,
    ) -> SearchBatch:
        """Returns a batch in its initial state."""

    def advance(self, batch: SearchBatch) -> tuple[list[BatchHypotheses], SearchBatch | None]:
        """Returns finished hypotheses and the batch of unfinished sentences."""


class BatchQueue:
    """A search of some batches; several queues may be searched in parallel.

    The hypotheses of a row do not depend on other rows. Which rows share a batch depends on the batches alone.

    Args:
        search: searches one batch.
        sizes: (rows,) int, size of each row in ids.
        max_ids: maximum ids of a batch, padding included.
        concat: joins unfinished batches.
    """

    def __init__(
        self,
        search: PiecewiseSearch,
        sizes: np.ndarray,
        max_ids: int,
        concat: Callable[[list[SearchBatch]], SearchBatch] = concat_batches,
    ):
        self._search, self._sizes, self._max_ids, self._concat = search, sizes, max_ids, concat
        self._ready: collections.deque[list[SearchBatch]] = collections.deque()
        self._unfinished: dict[int, list[SearchBatch]] = collections.defaultdict(list)
        """By the number of tokens searched."""

    def run(
        self,
        batches: Sequence[Batched],
        seeds: np.ndarray,
        prefixes: Sequence[Sequence[int]] | None = None,
        constraints: BatchConstraints | None = None,
    ) -> Iterator[list[BatchHypotheses]]:
        """Yields, after each advance of a batch, indices of rows with their hypotheses, as they finish.

        Args:
            batches: (indices of rows, rows) pairs.
            seeds: sampling seed of each row.
            prefixes: the ids that the output of each row begins with; None for none.
            constraints: on the output of each row; None for none.
        """
        for indices, rows in batches:
            own = None if prefixes is None else [prefixes[index] for index in indices]
            limited = None if constraints is None else constraints.select(indices)
            yield self._advance(self._search.start(indices, rows, seeds[indices], own, limited))
            yield from self._advance_ready()
        while self._unfinished:
            self._ready.append(self._unfinished.pop(min(self._unfinished)))
            yield from self._advance_ready()

    def _advance_ready(self) -> Iterator[list[BatchHypotheses]]:
        while self._ready:
            yield self._advance(self._concat(self._ready.popleft()))

    def _advance(self, batch: SearchBatch) -> list[BatchHypotheses]:
        """Advances a batch and keeps its unfinished sentences for joining; releases kept ones that do not fit."""
        found, unfinished = self._search.advance(batch)
        if unfinished is not None:
            kept = self._unfinished[unfinished.tokens]
            indices = np.concatenate([one.indices for one in (*kept, unfinished)])
            if kept and len(indices) * int(self._sizes[indices].max()) > self._max_ids:
                self._ready.append(self._unfinished.pop(unfinished.tokens))
            self._unfinished[unfinished.tokens].append(unfinished)
        return found
