"""Searching in rounds of some tokens: after each, what is left of several batches goes on together.

Sentences end one by one, and a search of few costs nearly as much a token as one of many. Batches that have had as many
rounds have had as many tokens, so that their sentences go together with nothing computed twice.
"""

import collections
import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from t2t.inference.batch_search import Batch, BatchHypotheses, BatchSearch, concat_batches
from t2t.inference.parallel import workers
from t2t.inference.rows import Batched


class Rounds:
    """A search of many batches, as many at a time as there are workers.

    What is found for a row does not depend on the others; who goes with whom does not depend on which batch is done
    first, since results are looked at in the order in which searches began.

    Args:
        search: finds hypotheses of a batch.
        weights: of each row, for how many ids it counts.
        most: ids of a batch.
    """

    def __init__(self, search: BatchSearch, weights: np.ndarray, most: int):
        self._search, self._weights, self._most = search, weights, most
        self._under_way: collections.deque[tuple[int, Future]] = collections.deque()
        self._waiting: dict[int, list[Batch]] = collections.defaultdict(list)

    def run(self, batches: Sequence[Batched], places: np.ndarray) -> Iterator[BatchHypotheses]:
        """Yields numbers of rows with what was found for them, in the order in which they are done.

        Args:
            batches: numbers of rows, and the rows.
            places: of each row, what names it when sampling.
        """
        new = iter(batches)
        with ThreadPoolExecutor(workers(), "decoding") as pool:
            try:
                while self._fill(pool, new, places):
                    round_, future = self._under_way.popleft()
                    found, rest = future.result()
                    yield from found
                    if rest is not None:
                        self._wait(pool, round_ + 1, rest)
            finally:
                pool.shutdown(cancel_futures=True)

    def _fill(self, pool: ThreadPoolExecutor, new: Iterator[Batched], places: np.ndarray) -> bool:
        """Sees to it that every worker has something to do and something to do next; tells whether anything is left."""
        while len(self._under_way) < 2 * workers() and (batch := next(new, None)) is not None:
            numbers, rows = batch
            self._submit(pool, 0, functools.partial(self._search.start, numbers, rows, places[numbers]))
        if not self._under_way and self._waiting:
            round_ = min(self._waiting)
            self._submit(pool, round_, functools.partial(concat_batches, self._waiting.pop(round_)))
        return bool(self._under_way)

    def _wait(self, pool: ThreadPoolExecutor, round_: int, rest: Batch) -> None:
        """Lets a batch wait for others, or sends those that wait on their way if it would be too much with them."""
        waiting = self._waiting[round_]
        numbers = np.concatenate([batch.numbers for batch in (*waiting, rest)])
        if waiting and len(numbers) * int(self._weights[numbers].max()) > self._most:
            self._submit(pool, round_, functools.partial(concat_batches, self._waiting.pop(round_)))
        self._waiting[round_].append(rest)

    def _submit(self, pool: ThreadPoolExecutor, round_: int, start: Callable[[], Batch]) -> None:
        self._under_way.append((round_, pool.submit(lambda: self._search.advance(start()))))
