"""Limits on connections, so that slow and silent clients do not keep others out.

uvicorn has no time limit for headers, and does not close idle connections to make room for new ones. The time limits
of request bodies and answers are in `t2t.serving.service`.
"""

import asyncio
import dataclasses
import logging
import resource
import time
from collections.abc import Iterable
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

log = logging.getLogger("t2t")

RESERVED_FILES = 128
"""File descriptors that the process needs besides its connections."""
WARNING_INTERVAL_S = 60.0
"""Minimum seconds between two warnings about too many connections."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """Limits on each connection, and on the number of connections."""

    head_bytes: int = 16 << 10
    """Largest request line with headers, in bytes."""
    seconds: float = 10.0
    """Longest time for request headers to arrive, and longest time in which a client reads no response data."""
    idle_seconds: int = 5
    """Longest idle time between a response and the next request."""
    count: int = 512
    """Largest number of open connections; lower if the process may open only few files."""

    @property
    def max_open(self) -> int:
        """Largest number of open connections; keeps half of the file descriptors free for bursts of new connections."""
        return self.max_open_of(resource.getrlimit(resource.RLIMIT_NOFILE)[0])

    def max_open_of(self, files: int) -> int:
        """Returns `max_open` for a process that may open so many files."""
        if files == resource.RLIM_INFINITY:
            return self.count
        return max(1, min(self.count, (files - RESERVED_FILES) // 2))


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 connection that is closed when the client is too slow, or idle when there are too many connections."""

    limits = ConnectionLimits()
    max_open = limits.count
    _warned_at = float("-inf")

    @classmethod
    def with_limits(cls, limits: ConnectionLimits) -> type["LimitedProtocol"]:
        """Returns a subclass with these limits, which uvicorn instantiates for each connection."""
        return type(cls.__name__, (cls,), {"limits": limits, "max_open": limits.max_open})

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._unsent = 0
        self._waiting_since = 0.0

    @property
    def waits_for_head(self) -> bool:
        """Whether no request is in progress, so the next headers are expected."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def waits_for_client(self) -> bool:
        """Whether the client still has to send headers or the rest of a body."""
        return self.waits_for_head or self.cycle.more_body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Starts the time limit of the first request, and closes a connection if there are too many."""
        super().connection_made(transport)
        self._expect_head()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancels the time limit."""
        self._cancel_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Cancels the time limit once the headers are complete; partial headers do not extend it."""
        super().data_received(data)
        self._stop_waiting_for_head()

    def on_response_complete(self) -> None:
        """Starts the time limit of the next request, even if the body of this one is still being received."""
        if not self.flow.write_paused:
            self._expect_head()
        super().on_response_complete()
        self._stop_waiting_for_head()  # the next request may have been there already

    def pause_writing(self) -> None:
        """Starts the time limit within which the client must read some data."""
        super().pause_writing()
        self._set_deadline()

    def resume_writing(self) -> None:
        """Cancels the time limit of `pause_writing`."""
        super().resume_writing()
        self._cancel_deadline()
        if self.waits_for_head:
            self._expect_head()

    def _expect_head(self) -> None:
        self._waiting_since = time.monotonic()
        self._set_deadline()

    def _stop_waiting_for_head(self) -> None:
        """Cancels the time limit if headers have come. While writing is paused, that of `pause_writing` remains."""
        if not self.waits_for_head and not self.flow.write_paused:
            self._cancel_deadline()

    def _set_deadline(self) -> None:
        self._cancel_deadline()
        self._unsent = self.transport.get_write_buffer_size()
        self._deadline = self.loop.call_later(self.limits.seconds, self._time_out)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _time_out(self) -> None:
        if 0 < self.transport.get_write_buffer_size() < self._unsent:  # the client is slow, but it reads
            self._set_deadline()
        else:
            self.transport.abort()

    def _make_room(self) -> None:
        """If there are too many connections, closes one that waits for its client, or else this one."""
        if sum(not one.transport.is_closing() for one in self.connections) <= self.max_open:
            return
        others = (one for one in self.connections if one is not self)
        (_longest_waiting(others) or self).transport.abort()
        if time.monotonic() - LimitedProtocol._warned_at > WARNING_INTERVAL_S:
            LimitedProtocol._warned_at = time.monotonic()
            log.warning("more than %d open connections, the limit; those idle the longest are closed", self.max_open)


def _longest_waiting(connections: Iterable[Any]) -> LimitedProtocol | None:
    """Returns the connection that has waited longest for a request, or else for the rest of a body; None for none."""
    waiting = [one for one in connections if one.waits_for_client and not one.transport.is_closing()]
    return min(waiting, key=lambda one: (not one.waits_for_head, one._waiting_since), default=None)
