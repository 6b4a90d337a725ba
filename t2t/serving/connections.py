"""Connections: who may open them, limits on each, and serving until a signal.

Slow and silent clients do not keep others out: uvicorn has no time limit for headers, and does not close idle
connections to make room for new ones. The time limits of request bodies and answers are in `t2t.serving.engine`.

Requests from web pages of other sites that are open in a browser on this machine are refused: they carry the site's
origin or, with DNS rebinding, its host name.
"""

import asyncio
import contextlib
import dataclasses
import ipaddress
import logging
import math
import os
import re
import resource
import signal
import socket
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from t2t.files.atomic import os_errors_as_machine_errors
from t2t.serving.answers import error_response
from t2t.serving.engine import ServingEngine

log = logging.getLogger("t2t")

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Host names of this machine."""
BACKLOG = 128
"""Connections that may wait to be accepted."""
END_S = 5.0
"""Seconds after the time for open requests in which the process ends, even if work is still running."""
RESERVED_FILES = 128
"""File descriptors that the process needs besides its connections."""
WARNING_INTERVAL_S = 60.0
"""Minimum seconds between two warnings about too many connections."""
ANY = "*"
_HOST = re.compile(r"([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?")
_OWN_SITES = ("same-origin", "none")
"""Values of Sec-Fetch-Site for requests from our own pages, and for addresses typed by the user."""


# === Who may connect ===


class OriginCheck:
    """Middleware that refuses requests under other host names and from pages of other origins.

    Args:
        app: the application.
        hosts: lower case, IPv6 addresses in brackets; `ANY` allows all.
        origins: of other sites whose pages may send requests, lower case, e.g. `https://page.example:8443`.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], origins: Collection[str] = ()):
        self._app, self._hosts, self._origins = app, frozenset(hosts), frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or refuses it: 400 for its host name, 403 for its origin."""
        if scope["type"] == "http" and (refusal := self._refusal(Headers(scope=scope), scope["method"])):
            status, reason = refusal
            log.warning("refused: %d %s", status, reason)
            await error_response(scope["path"], HTTPException(status, reason))(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, headers: Headers, method: str) -> tuple[int, str] | None:
        host = headers.get("host", "")
        found = _HOST.fullmatch(host)
        if not found or not (ANY in self._hosts or found[1].lower() in self._hosts):
            allowed = ", ".join(sorted(self._hosts))
            return 400, f"host name {host[:100]!r} is not allowed; use one of {allowed}"
        if headers.get("origin", "").lower() not in self._origins and is_foreign(headers, method):
            origin = headers.get("origin") or headers.get("sec-fetch-site", "")
            return 403, f"a page of another origin ({origin[:100]!r}) sent this request; open the service's own page"
        return None


def is_foreign(headers: Headers, method: str) -> bool:
    """Returns whether a page of another origin sent a request; following a link from such a page is allowed.

    Browsers send the origin with every POST, and newer ones also Sec-Fetch-Site. Programs send neither.
    """
    origin = headers.get("origin")
    if origin is not None and origin.lower().partition("://")[2] != headers["host"].lower():
        return True
    is_link = method in ("GET", "HEAD") and headers.get("sec-fetch-mode") == "navigate"
    return headers.get("sec-fetch-site", "none") not in _OWN_SITES and not is_link


# === Limits ===


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


# === Serving ===


def open_socket(host: str, port: int) -> socket.socket:
    """Returns a listening socket; port 0 takes any free port. Raises MachineError if that is not possible."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with os_errors_as_machine_errors(f"cannot listen at {host}:{port}"):
        return socket.create_server((host, port), family=family, backlog=BACKLOG)


def allowed_hosts(host: str, listening: socket.socket) -> list[str]:
    """Returns the accepted host names: all if other machines can reach the socket, else only this machine's."""
    address = ipaddress.ip_address(listening.getsockname()[0])
    if not (getattr(address, "ipv4_mapped", None) or address).is_loopback:
        return [ANY]
    own = (_in_address(name.lower()) for name in (host, str(address)))
    return list(dict.fromkeys([*LOOPBACK, *own]))


def _in_address(host: str) -> str:
    return f"[{host}]" if ":" in host else host


class _Server(uvicorn.Server):
    """Ends requests that are still open after `grace_s` seconds as the service does, before uvicorn cuts them off."""

    def __init__(self, config: uvicorn.Config, engine: ServingEngine | None, grace_s: float, end_s: float):
        super().__init__(config)
        self._engine, self._grace_s = engine, grace_s
        self.last_end = threading.Timer(grace_s + end_s, _end_process)
        self.last_end.daemon = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finishes or ends open requests, and closes the service."""
        self.last_end.start()
        if self._engine is None:
            await super().shutdown(sockets)
            return
        stop = asyncio.get_running_loop().call_later(self._grace_s, self._engine.stop)
        await super().shutdown(sockets)
        stop.cancel()


def serve(
    app: Starlette,
    listening: socket.socket,
    grace_s: float,
    limits: ConnectionLimits | None = None,
    engine: ServingEngine | None = None,
    end_s: float = END_S,
) -> None:
    """Serves until SIGINT or SIGTERM, then finishes open requests for up to `grace_s` seconds.

    Args:
        app: closes the engine at shutdown.
        listening: a listening socket.
        grace_s: seconds to finish open requests; those that are not finished get status 503 from the service.
        limits: of connections.
        engine: behind the application; None if there is none.
        end_s: further seconds after which the process ends with status 0 if work of the service is still running.
    """
    limits = limits or ConnectionLimits()
    config = uvicorn.Config(
        app, log_config=None, access_log=False, timeout_graceful_shutdown=math.ceil(grace_s) + 1, lifespan="on",
        http=LimitedProtocol.with_limits(limits), ws="none", backlog=BACKLOG,
        timeout_keep_alive=limits.idle_seconds, h11_max_incomplete_event_size=limits.head_bytes,
    )  # fmt: skip
    address, port = listening.getsockname()[:2]
    log.info("serving at http://%s:%d; end with Ctrl-C", _in_address(address), port)
    server = _Server(config, engine, grace_s, end_s)
    with _signals_end_quietly(), _warnings_logged():
        server.run(sockets=[listening])
    unanswered = engine.unanswered if engine else 0
    log.info("served; %s", f"requests not answered: {unanswered}" if unanswered else "all requests answered")
    server.last_end.cancel()
    if engine is not None and not engine.is_closed:
        _end_process()


def _end_process() -> None:
    """Ends the process with status 0 although threads run: Python would wait for some, and crash because of others."""
    logging.shutdown()
    os._exit(0)


@contextlib.contextmanager
def _warnings_logged() -> Iterator[None]:
    """Passes warnings and errors of uvicorn and asyncio to our log; they would be lost otherwise."""
    handler = logging.Handler(logging.WARNING)
    handler.emit = log.handle  # type: ignore[assignment]
    loggers = [logging.getLogger(name) for name in ("uvicorn.error", "asyncio")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


@contextlib.contextmanager
def _signals_end_quietly() -> Iterator[None]:
    """Ignores the signal that uvicorn raises again after shutdown."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
