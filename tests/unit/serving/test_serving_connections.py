"""Slow and silent clients do not block others, and pages of other sites are not answered."""

import contextlib
import http.client
import itertools
import json
import logging
import re
import resource
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from uvicorn.server import ServerState

from t2t.serving.connections import (
    RESERVED_FILES,
    ConnectionLimits,
    LimitedProtocol,
    OriginCheck,
    allowed_hosts,
    open_socket,
)
from t2t.serving.engine import ServingEngine
from t2t.serving.routes import build_app
from tests.waiting import join_all, start_thread, wait_until

PROGRAM = """
import asyncio, logging, resource, sys
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route
from t2t.serving.connections import ConnectionLimits
from t2t.serving.connections import open_socket, serve

files, seconds, idle = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (files, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
logging.basicConfig(level=logging.INFO, stream=sys.stderr, force=True)

async def healthz(request):
    return PlainTextResponse("ok")

async def slow(request):
    async def parts():
        yield "begun, "
        await asyncio.sleep(1.5 * seconds)
        yield "done"
    return StreamingResponse(parts())

async def echo(request):
    return PlainTextResponse(await request.body())

async def large(request):
    return PlainTextResponse("x" * 100_000)

async def broken(request):
    raise RuntimeError("a bug")

routes = [Route("/healthz", healthz), Route("/slow", slow), Route("/broken", broken), Route("/large", large)]
app = Starlette(routes=[*routes, Route("/echo", echo, methods=["POST"])])
with open_socket("127.0.0.1", 0) as listening:
    serve(app, listening, 1.0, ConnectionLimits(seconds=seconds, idle_seconds=idle))
"""
PATIENCE_S = 60

ENDLESS = """
import functools
import logging
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from starlette.responses import PlainTextResponse

from t2t.serving.routes import Address
from t2t.serving.routes import build_app
from t2t.serving.connections import open_socket, serve
from t2t.serving.engine import ServingEngine

logging.basicConfig(level=logging.INFO, stream=sys.stderr, force=True)

def endless():
    logging.info("begun")
    threading.Event().wait()

async def answer(service, request):
    return PlainTextResponse(await service.run(lambda: ThreadPoolExecutor().submit(endless).result()))

service = ServingEngine([])
service.close = functools.partial(service.close, 0.1)
app = build_app(service, ["127.0.0.1"], [Address(method="GET", path="/healthz", handler=answer, summary="Never.")])
with open_socket("127.0.0.1", 0) as listening:
    serve(app, listening, 0.2, engine=service, end_s=1.0)
"""


@contextlib.contextmanager
def served(*arguments, program=PROGRAM):
    """Runs a server; yields an object with its `port` and `log()`.

    The log is a file: a pipe that nobody reads would fill up and block the server.
    """
    command = [sys.executable, "-c", program, *map(str, arguments)]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        with log.open("w") as stderr:
            process = subprocess.Popen(command, stderr=stderr)

        def port():
            assert process.poll() is None, log.read_text()
            return re.search(r"serving at http://127\.0\.0\.1:(\d+)", log.read_text())

        try:
            wait_until(port, "the server listens")
            yield SimpleNamespace(port=int(port()[1]), log=log.read_text, process=process)
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def impatient():
    """A server for twenty connections, each of which has three seconds for a head: time enough on a busy machine."""
    with served(RESERVED_FILES + 40, 3.0, PATIENCE_S) as found:
        yield found


def connect(found):
    return socket.create_connection(("127.0.0.1", found.port), timeout=PATIENCE_S)


def get(found, path="/healthz"):
    connection = http.client.HTTPConnection("127.0.0.1", found.port, timeout=PATIENCE_S)
    with contextlib.closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def received_until(connection, text):
    received = b""
    while text not in received:
        part = connection.recv(1000)
        assert part, received
        received += part


def is_closed(connection):
    """Reads until the other side has closed a connection."""
    with contextlib.suppress(ConnectionResetError):
        while connection.recv(1000):
            pass
    return True


@pytest.mark.parametrize(
    "sent", [b"", b"GET /healthz HTT", b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc"]
)
@pytest.mark.slow
def test_others_are_answered_while_300_connections_say_nothing(sent):
    """The server's limit of open files is lower than the number of connections."""
    with served(256, PATIENCE_S, PATIENCE_S) as found:
        with contextlib.ExitStack() as stack:
            for _ in range(300):
                connection = stack.enter_context(connect(found))
                with contextlib.suppress(ConnectionError):  # the server may have closed it in favour of a later one
                    connection.sendall(sent)
            assert [get(found) for _ in range(3)] == [(200, "ok")] * 3
        assert found.log().count("64 open connections") == 1


def test_requests_in_progress_are_kept_when_others_need_room_and_take_longer_than_a_head(impatient):
    with contextlib.ExitStack() as stack:
        busy = stack.enter_context(connect(impatient))
        busy.sendall(b"GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        received_until(busy, b"begun")
        for _ in range(30):
            stack.enter_context(connect(impatient))
        received_until(busy, b"done")


# What a client does again and again after it has sent something and has read an answer with something.
CLIENTS = {
    "bytes trickle": (b"", b"", b"x"),
    "bytes of a head trickle": (b"GET / HTTP/1.1\r\n", b"", b"x"),
    "bytes trickle after an answer": (b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", b"200 OK", b"x"),
    "a body goes on after the answer": (
        b"POST /nowhere HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", b"404", b"1\r\na\r\n",
    ),
}  # fmt: skip


def trickle(connection, again):
    """Returns a function that sends something once more, and says whether the other side has closed the connection."""
    connection.settimeout(0.05)

    def is_over():
        try:
            connection.sendall(again)
            return is_closed(connection)
        except TimeoutError:
            return False
        except ConnectionError:
            return True

    return is_over


def pour(connection):
    """The same of a client that sends requests and reads no answer."""
    connection.setblocking(False)
    unsent = [b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n" * 100_000]

    def is_over():
        try:
            unsent[0] = unsent[0][connection.send(unsent[0]) :]
        except BlockingIOError:
            return False
        except ConnectionError:
            return True
        return False

    return is_over


def test_connections_without_a_whole_head_and_those_that_read_no_answer_are_closed(impatient):
    with contextlib.ExitStack() as stack:
        open_ones = [pour(stack.enter_context(connect(impatient)))]
        for begin, answer, again in CLIENTS.values():
            connection = stack.enter_context(connect(impatient))
            connection.sendall(begin)
            received_until(connection, answer)
            open_ones.append(trickle(connection, again))

        def all_are_closed():
            open_ones[:] = [is_over for is_over in open_ones if not is_over()]
            return not open_ones

        wait_until(all_are_closed, "the connections are closed")


def test_several_requests_go_over_one_connection_large_heads_are_refused_and_errors_logged(impatient):
    connection = http.client.HTTPConnection("127.0.0.1", impatient.port, timeout=PATIENCE_S)
    with contextlib.closing(connection):
        for body in ("one", "two"):
            connection.request("POST", "/echo", body)
            assert connection.getresponse().read().decode() == body
        assert connection.sock is not None
    with connect(impatient) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * (17 << 10))
        received_until(connection, b"400 Bad Request")
    assert get(impatient, "/broken")[0] == 500
    for text in ("Invalid HTTP request received", "RuntimeError: a bug"):
        wait_until(lambda text=text: text in impatient.log(), "the error is logged")


def test_silence_after_an_answer_ends_the_connection():
    with served(1024, PATIENCE_S, 1) as found, connect(found) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        received_until(connection, b"200 OK")
        assert is_closed(connection)


@pytest.mark.parametrize(
    ("files", "expected"), [(20000, 512), (1024, 448), (256, 64), (100, 1), (resource.RLIM_INFINITY, 512)]
)
def test_the_number_of_connections_follows_that_of_files(files, expected):
    assert ConnectionLimits().max_open_of(files) == expected


class Clock:
    """A fake event loop that runs scheduled calls on request."""

    def __init__(self):
        self.timers = []

    def call_later(self, seconds, function):
        timer = SimpleNamespace(function=function, seconds=seconds, cancel=self.timers.clear)
        self.timers.append(timer)
        return timer

    def pass_time(self):
        (timer,) = self.timers
        timer.function()


class Transport:
    """A fake connection; each call returns the next given size of the unsent part of an answer."""

    def __init__(self, unsent):
        self.unsent, self.aborted = iter(unsent), False

    def get_write_buffer_size(self):
        return next(self.unsent)

    def get_extra_info(self, name):
        return None

    def is_closing(self):
        return self.aborted

    def abort(self):
        self.aborted = True


async def unused(scope, receive, send):
    raise NotImplementedError


@pytest.mark.parametrize(("unsent", "lives"), [((0, 90, 80, 80, 70, 70, 70), 2), ((0, 90, 90), 0), ((0, 90, 0), 0)])
def test_a_client_that_reads_nothing_of_an_answer_loses_it(unsent, lives):
    """`unsent` is read on connection, when writing pauses, and on each timeout, twice if the connection stays open."""
    clock, transport = Clock(), Transport(unsent)
    config = uvicorn.Config(unused, log_config=None)
    protocol = LimitedProtocol.with_limits(ConnectionLimits())(config, ServerState(), {}, clock)
    protocol.connection_made(transport)
    protocol.pause_writing()
    for turn in itertools.count():
        clock.pass_time()
        assert transport.aborted == (turn >= lives)
        if transport.aborted:
            break


# === Which origins are answered: programs and own pages under known host names, but not pages of other sites ===
OWN = ["127.0.0.1", "localhost", "[::1]"]


def client_of(hosts, host="127.0.0.1:8501"):
    app = Starlette(
        routes=[Route("/", lambda request: PlainTextResponse("done"), methods=["GET", "POST"])],
        middleware=[Middleware(OriginCheck, hosts=hosts)],
    )
    return TestClient(app, base_url=f"http://{host}")


@pytest.mark.parametrize(
    ("named", "expected"),
    [("127.0.0.1", OWN), ("localhost", OWN), ("127.0.0.2", [*OWN, "127.0.0.2"]), ("0.0.0.0", ["*"]), ("", ["*"])],
)
def test_hosts_of_loopback_addresses_are_this_machines_names_alone(named, expected):
    with open_socket(named, 0) as listening:
        assert allowed_hosts(named, listening) == expected


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8501", "localhost:8600", "LOCALHOST", "[::1]:8501"])
def test_own_names_are_answered(host):
    assert client_of(OWN).get("/", headers={"host": host}).text == "done"


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8501", "127.0.0.1.evil.example", "localhost.evil.example", "evil.localhost",
        "127.0.0.2", "127.0.0.1@evil.example", "evil.example@127.0.0.1", "127.0.0.1:8501:80", "[::2]", "::1", "*", "",
        "www.localhost", "192.168.0.7",
    ],
)  # fmt: skip
def test_other_names_are_refused_with_the_allowed_ones(host, caplog):
    with caplog.at_level(logging.WARNING, "t2t"):
        answer = client_of(OWN).get("/", headers={"host": host})
    error = answer.json()["error"]
    assert answer.status_code == 400
    assert all(name in error for name in (repr(host), *OWN))
    assert [record.getMessage() for record in caplog.records] == [f"refused: 400 {error}"]


EVIL, LINK = {"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
REQUESTS = [
    *(("POST", {"origin": origin}, 403) for origin in (
        "http://evil.example", "null", "http://127.0.0.1", "http://127.0.0.1:8600", "http://localhost:8501",
        "http://[evil", "",
    )),
    *(("POST", {"sec-fetch-site": site}, 403) for site in ("cross-site", "same-site")),
    ("POST", LINK, 403),
    ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
    ("GET", EVIL, 403),
    ("OPTIONS", {**EVIL, "access-control-request-method": "POST"}, 403),
    ("POST", {}, 200),
    ("POST", {"content-type": "application/x-www-form-urlencoded"}, 200),
    ("POST", {"origin": "http://127.0.0.1:8501", "sec-fetch-site": "same-origin"}, 200),
    ("GET", {"sec-fetch-site": "none", "sec-fetch-mode": "navigate"}, 200),
    ("GET", LINK, 200),
]  # fmt: skip
"""Requests of pages of other origins; and of programs, own pages and links."""


@pytest.mark.parametrize(("method", "headers", "status"), REQUESTS)
def test_pages_of_other_origins_are_refused_and_programs_own_pages_and_links_are_answered(method, headers, status):
    answer = client_of(OWN).request(method, "/", headers=headers)
    assert answer.status_code == status
    assert answer.text == "done" if status == 200 else answer.json().keys() == {"error"}
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(("origin", "status"), [("https://page.example", 200), ("https://other.example", 403)])
def test_pages_of_an_origin_that_is_allowed_may_ask(origin, status):
    with TestClient(
        build_app(ServingEngine([]), OWN, origins=["https://page.example"]), base_url="http://127.0.0.1"
    ) as client:
        asked = {"origin": origin, "sec-fetch-site": "cross-site"}
        preflight = {**asked, "access-control-request-method": "POST", "access-control-request-headers": "content-type"}
        for answer in (client.options("/translate", headers=preflight), client.get("/healthz", headers=asked)):
            assert answer.status_code == status
            assert answer.headers.get("access-control-allow-origin") == (origin if status == 200 else None)


def test_any_name_is_answered_where_others_reach_it_but_no_other_origin():
    client = client_of(["*"], "translate.example")
    assert client.post("/").text == "done"
    assert client.post("/", headers={"origin": "https://translate.example"}).text == "done"
    assert client.post("/", headers={"origin": "https://evil.example"}).status_code == 403


def test_a_server_ends_in_time_whatever_still_runs():
    """The thread of an executor never ends, and Python would wait for it."""
    with served(program=ENDLESS) as found:
        answers = []
        asking = start_thread(lambda: answers.append(get(found)))
        wait_until(lambda: "begun" in found.log(), "the work has begun")
        found.process.terminate()
        join_all(asking)
        assert found.process.wait(PATIENCE_S) == 0
        assert answers[0][0] == 503
        assert "error" in json.loads(answers[0][1])
        assert "Traceback" not in found.log()
        assert "requests not answered: 1" in found.log().splitlines()[-1]
