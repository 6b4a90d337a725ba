"""Serves an application with uvicorn until a signal."""

import contextlib
import ipaddress
import logging
import signal
import socket
import threading
from collections.abc import Iterator

import uvicorn
from starlette.applications import Starlette

from t2t.files.atomic import os_errors_as_machine_errors
from t2t.serving.connections import ConnectionLimits, LimitedProtocol
from t2t.serving.origins import ANY

log = logging.getLogger("t2t")

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Host names of this machine."""
BACKLOG = 128
"""Connections that may wait to be accepted."""


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


def serve(app: Starlette, listening: socket.socket, grace_s: float, limits: ConnectionLimits | None = None) -> None:
    """Serves until SIGINT or SIGTERM, then finishes open requests for up to `grace_s` seconds."""
    limits = limits or ConnectionLimits()
    config = uvicorn.Config(
        app, log_config=None, access_log=False, timeout_graceful_shutdown=max(1, round(grace_s)), lifespan="on",
        http=LimitedProtocol.with_limits(limits), ws="none", backlog=BACKLOG,
        timeout_keep_alive=limits.idle_seconds, h11_max_incomplete_event_size=limits.head_bytes,
    )  # fmt: skip
    address, port = listening.getsockname()[:2]
    log.info("serving at http://%s:%d; end with Ctrl-C", _in_address(address), port)
    with _signals_end_quietly(), _warnings_logged():
        uvicorn.Server(config).run(sockets=[listening])
    log.info("served; all requests answered")


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
