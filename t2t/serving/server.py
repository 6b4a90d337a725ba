"""From an application to a process that serves it, and ends well."""

import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Iterator

import uvicorn
from starlette.applications import Starlette

from t2t.atomic import os_errors_as_machine_errors

log = logging.getLogger("t2t")

LOOPBACK = ("127.0.0.1", "localhost", "::1")
BACKLOG = 1024
"""Connections that may wait to be taken."""


def open_socket(host: str, port: int) -> socket.socket:
    """Returns a listening socket; port 0 is any that is free.

    Raises:
        MachineError: the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with os_errors_as_machine_errors(f"cannot listen at {host}:{port}"):
        return socket.create_server((host, port), family=family, backlog=BACKLOG)


def allowed_hosts(host: str) -> list[str]:
    """Returns the names by which a service at an address may be addressed; where others may reach it, any."""
    return [*LOOPBACK[:2], "[::1]"] if host in LOOPBACK else ["*"]


def serve(app: Starlette, listening: socket.socket, grace_s: float) -> None:
    """Serves until SIGINT or SIGTERM; then takes no more connections, and answers the requests that it has.

    Args:
        app: what answers.
        listening: from `open_socket`.
        grace_s: seconds that requests have to be answered after the signal.
    """
    config = uvicorn.Config(
        app, log_config=None, access_log=False, timeout_graceful_shutdown=max(1, round(grace_s)), lifespan="on"
    )
    address, port = listening.getsockname()[:2]
    log.info("serving at http://%s:%d; end with Ctrl-C", f"[{address}]" if ":" in address else address, port)
    with _signals_end_quietly():
        uvicorn.Server(config).run(sockets=[listening])
    log.info("served; all requests answered")


@contextlib.contextmanager
def _signals_end_quietly() -> Iterator[None]:
    """Once it has ended, uvicorn raises the signal that made it end a second time: that has been obeyed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
