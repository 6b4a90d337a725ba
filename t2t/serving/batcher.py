"""Batches requests that arrive at about the same time."""

import dataclasses
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from typing import Any


class FullError(Exception):
    """The queue is full, or closed."""


class EndedError(FullError):
    """The service ends."""

    def __init__(self):
        super().__init__("the service ends")


@dataclasses.dataclass(frozen=True)
class _Waiting:
    item: Any
    group: Hashable
    future: Future
    since: float
    """Arrival, in seconds of the monotonic clock."""


class Batcher:
    """A bounded first-in, first-out queue, and threads that process batches of its items.

    A batch starts when it is full, or when its first item has waited for `wait_s`. All its items are of one group.

    Args:
        answer: `answer(items)` returns one result for each item; called in the threads. If it raises for a batch, each
            item is retried separately.
        most: largest number of items in a batch.
        wait_s: seconds that an item waits for others to form a batch.
        room: capacity of the queue, in items.
        threads: number of batches processed concurrently.
        group: returns the group of an item; by default, there is one.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[Any]], Sequence[Any]],
        *,
        most: int,
        wait_s: float,
        room: int,
        threads: int = 1,
        group: Callable[[Any], Hashable] = lambda item: None,
    ):
        self._group = group
        self._answer, self._most, self._wait_s, self.room = answer, most, wait_s, room
        self._queue: deque[_Waiting] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._threads = [threading.Thread(target=self._work, name="batcher", daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """Number of items in the queue."""
        return len(self._queue)

    def submit(self, items: Sequence[Any]) -> list[Future]:
        """Queues all items or none, and returns the futures of their results; items with cancelled futures are skipped.

        Raises:
            EndedError: the batcher is closed.
            FullError: the queue has no room for all items.
        """
        with self._changed:
            if self._closed:
                raise EndedError
            if len(self._queue) + len(items) > self.room:
                raise FullError(f"{len(self._queue)} of {self.room} places taken")
            entries = [_Waiting(item, self._group(item), Future(), time.monotonic()) for item in items]
            self._queue.extend(entries)
            self._changed.notify_all()  # all threads: there may be several batches
        return [entry.future for entry in entries]

    def close(self, seconds: float | None = None) -> bool:
        """Refuses new items, answers those in the queue, and joins the threads; returns whether they have ended.

        Args:
            seconds: time limit for the threads, which go on until the process ends; None for none.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        end = None if seconds is None else time.monotonic() + seconds
        for thread in self._threads:
            thread.join(None if end is None else max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self) -> None:
        while (batch := self._take()) is not None:
            batch = [entry for entry in batch if entry.future.set_running_or_notify_cancel()]
            if batch:
                self._resolve(batch)

    def _resolve(self, batch: list[_Waiting]) -> None:
        try:
            results = self._answer([entry.item for entry in batch])
            if len(results) != len(batch):
                raise RuntimeError(f"{len(results)} results of {len(batch)} items")
        except BaseException as error:  # keeps the thread alive
            if len(batch) == 1:
                batch[0].future.set_exception(error)
                return
            for entry in batch:
                self._resolve([entry])
        else:
            for entry, result in zip(batch, results, strict=True):
                entry.future.set_result(result)

    def _take(self) -> list[_Waiting] | None:
        """Waits for a batch and removes it from the queue; returns None once the queue is closed and empty."""
        with self._changed:
            while True:
                while not self._queue and not self._closed:
                    self._changed.wait()
                if not self._queue:
                    return None
                first = self._queue[0]
                found = list(itertools.islice((one for one in self._queue if one.group == first.group), self._most))
                left = first.since + self._wait_s - time.monotonic()
                if self._closed or len(found) >= self._most or left <= 0:
                    taken = set(map(id, found))
                    self._queue = deque(one for one in self._queue if id(one) not in taken)
                    return found
                self._changed.wait(left)  # for more items
