"""Runs iterators in threads for coroutines: each streamed answer has a thread, up to a fixed number."""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from t2t.serving.batcher import FullError

Item = TypeVar("Item")

_END = object()


class Streams:
    """Runs iterators in threads for coroutines that consume their items.

    Args:
        most: largest number of concurrent iterators.
    """

    def __init__(self, most: int):
        self._most = most
        self._pool = ThreadPoolExecutor(most, "stream")
        self._lock = threading.Lock()
        self._running: set[threading.Event] = set()
        """For each running iterator the event that stops it after its next item."""
        self._closed = False

    @property
    def running(self) -> int:
        """Number of iterators that have not ended."""
        return len(self._running)

    async def run(self, items: Callable[[], Iterator[Item]], seconds: float) -> AsyncIterator[Item]:
        """Yields the items of an iterator as they arrive; stops the iterator when the consumer is closed.

        Args:
            items: returns the iterator; called in the thread.
            seconds: time limit for all items, from the call on.

        Raises:
            FullError: too many iterators are running, or the streams are closed.
            TimeoutError: the time limit is exceeded.
        """
        arrived: asyncio.Queue[Any] = asyncio.Queue()
        stop = self._start(items, arrived)
        end = time.monotonic() + seconds
        try:
            while (item := await asyncio.wait_for(arrived.get(), end - time.monotonic())) is not _END:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            stop.set()

    def close(self) -> None:
        """Stops all iterators and joins their threads."""
        with self._lock:
            self._closed = True
            for stop in self._running:
                stop.set()
        self._pool.shutdown()

    def _start(self, items: Callable[[], Iterator[Any]], arrived: "asyncio.Queue[Any]") -> threading.Event:
        loop, stop = asyncio.get_running_loop(), threading.Event()
        with self._lock:
            if self._closed or len(self._running) >= self._most:
                raise FullError(f"{len(self._running)} of {self._most} streams taken")
            self._running.add(stop)
            self._pool.submit(self._work, items, lambda item: loop.call_soon_threadsafe(arrived.put_nowait, item), stop)
        return stop

    def _work(self, items: Callable[[], Iterator[Any]], send: Callable[[Any], Any], stop: threading.Event) -> None:
        last: Any = _END
        try:
            with contextlib.closing(items()) as iterator:  # type: ignore[type-var]  # a generator
                for item in iterator:
                    if stop.is_set():
                        last = FullError("the service ends")  # for a consumer that is still waiting
                        break
                    send(item)
        except BaseException as error:  # goes to the consumer
            last = error
        finally:
            with self._lock:
                self._running.discard(stop)
        with contextlib.suppress(RuntimeError):  # the event loop has ended, so there is no consumer
            send(last)
