"""Preparing the next batches in the background."""

import queue
import threading
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Prefetch(Generic[T]):
    """Runs an iterator ahead of its reader, in a thread. Use it as a context manager, or call `close`.

    It yields the items of the iterator unchanged: a state that comes with an item is exact, however far ahead the
    thread is.

    Args:
        batches: from here on only the thread may read it.
        depth: most items that wait in the queue.
    """

    def __init__(self, batches: Iterator[T], depth: int = 4):
        self._batches = batches
        self._queue: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(depth)
        self._stop = threading.Event()
        self._end: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="t2t-prefetch", daemon=True)
        self._thread.start()

    def __iter__(self) -> "Prefetch[T]":
        return self

    def __next__(self) -> T:
        """Returns the next item.

        Raises:
            StopIteration: the iterator has ended, or the prefetch was closed.
            BaseException: any exception that the iterator raised.
        """
        if self._end is None:
            item, self._end = self._queue.get()
        if self._end is not None:
            raise self._end
        return item

    def close(self) -> None:
        """Ends the thread and discards the waiting items."""
        self._stop.set()
        self._thread.join()
        self._end = self._end or StopIteration()

    def __enter__(self) -> "Prefetch[T]":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _run(self) -> None:
        try:
            for item in self._batches:
                if not self._put((item, None)):
                    return
            self._put((None, StopIteration()))
        except BaseException as error:  # it is raised where the items are used
            self._put((None, error))

    def _put(self, entry: tuple[Any, BaseException | None]) -> bool:
        while not self._stop.is_set():
            try:
                self._queue.put(entry, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False
