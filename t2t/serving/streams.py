"""Runs iterators in threads for coroutines: each streamed answer has a thread, up to a fixed number; others wait."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

from t2t.serving.batcher import Batcher, EndedError

Item = TypeVar("Item")

_END = object()


class _Stream:
    """An iterator whose items go to a coroutine.

    Args:
        items: returns the iterator.
    """

    def __init__(self, items: Callable[[], Iterator[Any]]):
        self._items, self._loop = items, asyncio.get_running_loop()
        self.arrived: asyncio.Queue[Any] = asyncio.Queue()
        self.is_stopped = False
        """Whether nobody reads further items."""

    def send(self, item: Any) -> None:
        """Passes an item to the coroutine, from any thread."""
        with contextlib.suppress(RuntimeError):  # the event loop has ended, so there is no consumer
            self._loop.call_soon_threadsafe(self.arrived.put_nowait, item)

    def run(self) -> None:
        """Sends all items, unless it is stopped."""
        if self.is_stopped:
            return
        last: Any = _END
        try:
            with contextlib.closing(self._items()) as iterator:  # type: ignore[type-var]  # a generator
                for item in iterator:
                    if self.is_stopped:
                        return
                    self.send(item)
        except BaseException as error:  # goes to the consumer
            last = error
        self.send(last)


class Streams:
    """Runs iterators in threads for coroutines that consume their items.

    Args:
        most: largest number of concurrent iterators.
        room: how many more may wait.
    """

    def __init__(self, most: int, room: int):
        self._queue = Batcher(self._run, most=1, wait_s=0.0, room=room, threads=most)
        self._open: set[_Stream] = set()
        """Streams with a consumer."""
        self._running: set[_Stream] = set()

    @property
    def running(self) -> int:
        """Number of iterators that have started and not ended."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Number of iterators that wait."""
        return self._queue.waiting

    async def run(self, items: Callable[[], Iterator[Item]], seconds: float) -> AsyncIterator[Item]:
        """Yields the items of an iterator as they arrive; stops the iterator when the consumer is closed.

        Args:
            items: returns the iterator; called in the thread.
            seconds: time limit for all items, from the call on.

        Raises:
            EndedError: the streams are stopped or closed.
            FullError: too many iterators wait.
            TimeoutError: the time limit is exceeded.
        """
        stream = _Stream(items)
        end = time.monotonic() + seconds
        self._queue.submit([stream])
        self._open.add(stream)
        try:
            while (item := await asyncio.wait_for(stream.arrived.get(), end - time.monotonic())) is not _END:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            stream.is_stopped = True
            self._open.discard(stream)

    def stop(self) -> None:
        """Ends all streams for their consumers, with an EndedError, and stops the iterators after their next items."""
        for stream in list(self._open):
            stream.is_stopped = True
            stream.send(EndedError())

    def close(self, seconds: float | None = None) -> bool:
        """Does as `stop`, takes no more, and joins the threads, see `Batcher.close`."""
        self.stop()
        return self._queue.close(seconds)

    def _run(self, streams: Any) -> list[None]:
        (stream,) = streams
        self._running.add(stream)
        try:
            stream.run()
        finally:
            self._running.discard(stream)
        return [None]
