"""Serves an application with uvicorn until a signal."""

import asyncio
import contextlib
import ipaddress
import logging
import math
import os
import signal
import socket
import threading
from collections.abc import Iterator

import uvicorn
from starlette.applications import Starlette

from t2t.files.atomic import os_errors_as_machine_errors
from t2t.serving.connections import ConnectionLimits, LimitedProtocol
from t2t.serving.origins import ANY
from t2t.serving.service import Service

log = logging.getLogger("t2t")

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Host names of this machine."""
BACKLOG = 128
"""Connections that may wait to be accepted."""
END_S = 5.0
"""Seconds after the time for open requests in which the process ends, even if work is still running."""


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

    def __init__(self, config: uvicorn.Config, service: Service | None, grace_s: float, end_s: float):
        super().__init__(config)
        self._service, self._grace_s = service, grace_s
        self.last_end = threading.Timer(grace_s + end_s, _end_process)
        self.last_end.daemon = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finishes or ends open requests, and closes the service."""
        self.last_end.start()
        if self._service is None:
            await super().shutdown(sockets)
            return
        stop = asyncio.get_running_loop().call_later(self._grace_s, self._service.stop)
        await super().shutdown(sockets)
        stop.cancel()


def serve(
    app: Starlette,
    listening: socket.socket,
    grace_s: float,
    limits: ConnectionLimits | None = None,
    service: Service | None = None,
    end_s: float = END_S,
) -> None:
    """Serves until SIGINT or SIGTERM, then finishes open requests for up to `grace_s` seconds.

    Args:
        app: closes the service at shutdown.
        listening: a listening socket.
        grace_s: seconds to finish open requests; those that are not finished get status 503 from the service.
        limits: of connections.
        service: behind the application; None if there is none.
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
    server = _Server(config, service, grace_s, end_s)
    with _signals_end_quietly(), _warnings_logged():
        server.run(sockets=[listening])
    unanswered = service.unanswered if service else 0
    log.info("served; %s", f"{unanswered} request(s) not answered" if unanswered else "all requests answered")
    server.last_end.cancel()
    if service is not None and not service.is_closed:
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
