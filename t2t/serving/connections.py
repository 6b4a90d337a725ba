"""Limits on connections, so that slow and silent clients do not keep others out.

uvicorn has no time limit for headers, and does not close idle connections to make room for new ones. Times of bodies
and answers are limited in `t2t.serving.service`.
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
"""Open files that the process needs besides its connections."""
WARNING_INTERVAL_S = 60.0
"""At most one warning of too many connections in this time."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """Limits on each connection, and on their number."""

    head_bytes: int = 16 << 10
    """Largest request line with its headers."""
    seconds: float = 10.0
    """Longest time until a request's headers are complete, and in which a client reads nothing of an answer."""
    idle_seconds: int = 5
    """Longest silence between an answer and the next request."""
    count: int = 512
    """Most open connections; fewer where the process may open fewer files."""

    @property
    def max_open(self) -> int:
        """Most open connections; half of the files stay free, as a burst is accepted before old ones are closed."""
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if files == resource.RLIM_INFINITY:
            return self.count
        return max(1, min(self.count, (files - RESERVED_FILES) // 2))


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 on a connection that is closed when it is too slow, or when its place is needed."""

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
        """Whether no request is in progress."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def waits_for_client(self) -> bool:
        """Whether the request is incomplete."""
        return self.waits_for_head or self.cycle.more_body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Starts the time for the first request, and closes a connection if there are too many."""
        super().connection_made(transport)
        self._expect_head()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the time limit."""
        self._cancel_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Ends the time for the headers if they are complete; other data does not extend it."""
        super().data_received(data)
        if not self.waits_for_head:
            self._cancel_deadline()

    def on_response_complete(self) -> None:
        """Starts the time for the next request, also where the body of this one is still being sent."""
        self._expect_head()
        super().on_response_complete()
        if not self.waits_for_head:  # the next request was already there
            self._cancel_deadline()

    def pause_writing(self) -> None:
        """Starts the time in which the client must read something."""
        super().pause_writing()
        self._set_deadline()

    def resume_writing(self) -> None:
        """Ends that limit."""
        super().resume_writing()
        self._cancel_deadline()
        if self.waits_for_head:
            self._expect_head()

    def _expect_head(self) -> None:
        self._waiting_since = time.monotonic()
        self._set_deadline()

    def _set_deadline(self) -> None:
        self._cancel_deadline()
        self._unsent = self.transport.get_write_buffer_size()
        self._deadline = self.loop.call_later(self.limits.seconds, self._time_out)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _time_out(self) -> None:
        if 0 < self.transport.get_write_buffer_size() < self._unsent:  # a slow client, but it reads
            self._set_deadline()
        else:
            self.transport.abort()

    def _make_room(self) -> None:
        """Closes one connection if there are too many: another that waits for its client, else this one."""
        if sum(not one.transport.is_closing() for one in self.connections) <= self.max_open:
            return
        others = (one for one in self.connections if one is not self)
        (_longest_waiting(others) or self).transport.abort()
        if time.monotonic() - LimitedProtocol._warned_at > WARNING_INTERVAL_S:
            LimitedProtocol._warned_at = time.monotonic()
            log.warning("more than %d open connections, the limit; those idle the longest are closed", self.max_open)


def _longest_waiting(connections: Iterable[Any]) -> LimitedProtocol | None:
    """Returns the connection that has waited longest for a request, else for the rest of a body, if any."""
    waiting = [one for one in connections if one.waits_for_client and not one.transport.is_closing()]
    return min(waiting, key=lambda one: (not one.waits_for_head, one._waiting_since), default=None)
