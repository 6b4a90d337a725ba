"""Which origins are answered: programs and own pages under known host names, but not pages of other sites."""

import logging

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from t2t.serving.origins import OriginCheck
from t2t.serving.server import allowed_hosts, open_socket

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


def test_any_name_is_answered_where_others_reach_it_but_no_other_origin():
    client = client_of(["*"], "translate.example")
    assert client.post("/").text == "done"
    assert client.post("/", headers={"origin": "https://translate.example"}).text == "done"
    assert client.post("/", headers={"origin": "https://evil.example"}).status_code == 403
