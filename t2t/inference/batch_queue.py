"""Searches many batches in parallel and concatenates what is unfinished of several.

Sentences end one by one, and a search of few costs nearly as much per token as one of many. Each worker advances a
batch by some tokens (`BatchSearch.advance`); unfinished batches with equally many tokens are concatenated.
"""

import collections
import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from t2t.inference.batch_search import Batch, BatchHypotheses, BatchSearch, concat_batches
from t2t.inference.parallel import workers
from t2t.inference.rows import Batched


class BatchQueue:
    """A search of many batches, as many at a time as there are workers.

    The hypotheses of a row do not depend on other rows. Which rows share a batch does not depend on which worker is
    faster: results are taken in the order in which batches were submitted.

    Args:
        search: searches one batch.
        weights: (rows,) int, ids that each row counts for.
        max_ids: most ids of a batch.
    """

    def __init__(self, search: BatchSearch, weights: np.ndarray, max_ids: int):
        self._search, self._weights, self._max_ids = search, weights, max_ids
        self._running: collections.deque[Future] = collections.deque()
        self._unfinished: dict[int, list[Batch]] = collections.defaultdict(list)
        """By the number of tokens searched."""

    def run(self, batches: Sequence[Batched], places: np.ndarray) -> Iterator[BatchHypotheses]:
        """Yields numbers of rows with their hypotheses, as they finish.

        Args:
            batches: numbers of rows, and the rows.
            places: of each row, what names it when sampling.
        """
        new = iter(batches)
        with ThreadPoolExecutor(workers(), "decoding") as pool:
            try:
                while self._fill(pool, new, places):
                    found, unfinished = self._running.popleft().result()
                    yield from found
                    if unfinished is not None:
                        self._add_unfinished(pool, unfinished)
            finally:
                pool.shutdown(cancel_futures=True)

    def _fill(self, pool: ThreadPoolExecutor, new: Iterator[Batched], places: np.ndarray) -> bool:
        """Gives every worker a batch and the next one; returns whether anything is left to search."""
        while len(self._running) < 2 * workers() and (batch := next(new, None)) is not None:
            numbers, rows = batch
            self._submit(pool, functools.partial(self._search.start, numbers, rows, places[numbers]))
        if not self._running and self._unfinished:
            self._submit_unfinished(pool, min(self._unfinished))
        return bool(self._running)

    def _add_unfinished(self, pool: ThreadPoolExecutor, batch: Batch) -> None:
        """Keeps a batch for others to join; submits those kept before where they would be too many with it."""
        kept = self._unfinished[batch.tokens]
        numbers = np.concatenate([one.numbers for one in (*kept, batch)])
        if kept and len(numbers) * int(self._weights[numbers].max()) > self._max_ids:
            self._submit_unfinished(pool, batch.tokens)
        self._unfinished[batch.tokens].append(batch)

    def _submit_unfinished(self, pool: ThreadPoolExecutor, tokens: int) -> None:
        self._submit(pool, functools.partial(concat_batches, self._unfinished.pop(tokens)))

    def _submit(self, pool: ThreadPoolExecutor, start: Callable[[], Batch]) -> None:
        self._running.append(pool.submit(lambda: self._search.advance(start())))
