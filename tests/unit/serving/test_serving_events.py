"""Streamed answers: their pieces, joined, are the answer that is not streamed."""

import itertools
import json
import socket
import threading

import pytest
import uvicorn

from t2t.serving.app import build_app
from t2t.serving.connections import LimitedProtocol
from t2t.serving.models import PartialAnswer, ServedModel
from t2t.serving.server import open_socket
from t2t.serving.service import Service
from tests.letters import TEXTS
from tests.unit.serving.conftest import events_of, serving
from tests.waiting import LIMIT_S, join_all, start_thread, wait_until

SEARCHES = [
    {"decode_method": "greedy"},
    {"n_best": 2},
    {"decode_method": "sample", "seed": 3, "n_best": 2, "sampling_temperature": 1.5},
]
"""As those of the other tests, so that they are compiled once."""


@pytest.mark.parametrize("model", ["letters", "bytes", "alone"])
@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_pieces_make_the_translation(client, model, search):
    for text in TEXTS[:4]:
        asked = {"text": text, "model": model, **search}
        *pieces, last = map(json.loads, events_of(client.post("/translate", json={**asked, "stream": True})))
        written = {}
        for piece in pieces:
            written[piece["output"]] = written.get(piece["output"], "") + piece["delta"]
            assert piece["delta"]
        outputs = last["translations"][0]["outputs"]
        assert [written.get(number, "") for number in range(len(outputs))] == [one["text"] for one in outputs]
        whole = client.post("/translate", json=asked).json()
        assert [one["text"] for one in whole["translations"][0]["outputs"]] == [one["text"] for one in outputs]
        assert set(last) == set(whole)


def test_an_accept_header_asks_for_events_too(client):
    asked = {"text": ["a b"]}
    *_, last = events_of(client.post("/translate", json=asked, headers={"accept": "text/event-stream"}))
    assert "translations" in json.loads(last)


@pytest.mark.parametrize(("path", "is_chat"), [("/v1/completions", False), ("/v1/chat/completions", True)])
@pytest.mark.parametrize("model", ["letters", "bytes", "alone"])
def test_chunks_make_the_completion(client, path, is_chat, model):
    for search in ({"n": 2}, {"temperature": 0}, {"temperature": 1.5, "seed": 3, "n": 2}):
        for text in [*TEXTS[:3], ""]:
            prompt = {"messages": [{"role": "user", "content": text}]} if is_chat else {"prompt": text}
            asked = {"model": model, **prompt, **search}
            more = {"stream": True, "stream_options": {"include_usage": True}}
            *events, done = events_of(client.post(path, json={**asked, **more}))
            assert done == "[DONE]"
            *chunks, last = map(json.loads, events)
            whole = client.post(path, json=asked).json()
            assert last["choices"] == []
            assert last["usage"] == whole["usage"]
            check_chunks(chunks, whole, is_chat)


def check_chunks(chunks, whole, is_chat):
    assert {one["object"] for one in chunks} == {"chat.completion.chunk" if is_chat else "text_completion"}
    assert len({one["id"] for one in chunks}) == 1
    for choice in whole["choices"]:
        own = [one for chunk in chunks for one in chunk["choices"] if one["index"] == choice["index"]]
        reasons = [one["finish_reason"] for one in own]
        assert reasons == [None] * (len(own) - 1) + [choice["finish_reason"]]
        if is_chat:
            roles = [one["delta"].get("role") for one in own]
            assert roles == ["assistant"] + [None] * (len(own) - 1)
            assert "".join(one["delta"]["content"] for one in own) == choice["message"]["content"]
        else:
            assert "".join(one["text"] for one in own) == choice["text"]


class Whole(ServedModel):
    """A model that cannot stream."""

    can_stream, stream = False, None


class Broken(ServedModel):
    """A model with a bug in its search."""

    can_stream = True

    def stream(self, question):
        yield PartialAnswer(["a"], None)
        raise RuntimeError("a bug")


def test_a_model_that_cannot_stream_answers_in_one_piece(translator):
    with serving(Whole("whole", translator, 1)) as (client, _):
        whole = client.post("/translate", json={"text": "a b c"}).json()
        piece, last = map(json.loads, events_of(client.post("/translate", json={"text": "a b c", "stream": True})))
    assert (piece, last) == ({"output": 0, "delta": whole["text"]}, whole)


def test_a_bug_in_a_search_is_the_last_event(translator, caplog):
    with serving(Broken("broken", translator, 1)) as (client, _):
        *_, last = events_of(client.post("/translate", json={"text": "a", "stream": True}))
    error = json.loads(last)["error"]
    assert "RuntimeError" in error
    assert "a bug" not in error
    assert "/translate: " in caplog.text


# === A model whose steps the test allows ===


class Gated(ServedModel):
    """A model that adds a word each time its gate is released."""

    can_stream = True

    def __init__(self, translator):
        super().__init__("gated", translator, 1)
        self.gate, self.ended = threading.Semaphore(0), threading.Event()

    def stream(self, question):
        try:
            for count in itertools.count(1):
                assert self.gate.acquire(timeout=LIMIT_S)
                yield PartialAnswer(["word " * count], None)
        finally:
            self.ended.set()

    def wait_for_end(self):
        """Releases the gate until the search has ended: after each step it can notice that nobody waits for it."""
        wait_until(lambda: self.gate.release() or self.ended.wait(0.05), "the search has ended")


@pytest.fixture
def gated(translator):
    model = Gated(translator)
    yield model
    model.gate.release(2000)


def test_an_answer_that_takes_too_long_ends_with_an_error_and_its_search_too(gated):
    with serving(gated, seconds=5.0) as (client, _):
        for path, name in (("/translate", "text"), ("/v1/completions", "prompt")):
            gated.ended.clear()
            gated.gate.release()
            *_, last = events_of(client.post(path, json={name: "a", "stream": True}))
            error = json.loads(last)["error"]
            assert " 5 seconds" in (error if path == "/translate" else error["message"])
            gated.wait_for_end()


def test_more_streams_than_allowed_are_answered_429_and_closing_ends_them(gated):
    answers = []
    with serving(gated, streams=1, seconds=LIMIT_S) as (client, service):
        asked = {"text": "a", "stream": True}
        first = start_thread(lambda: answers.append(client.post("/translate", json=asked).text))
        wait_until(lambda: service.streams.running == 1, "one stream runs")
        refused = client.post("/v1/completions", json={"prompt": "a", "stream": True})
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        error = refused.json()["error"]
        assert error["type"] == "rate_limit_error"
        assert " 1 of 1 " in error["message"]
        assert client.post("/translate", json={"text": "a"}).status_code == 200  # other requests are still answered
        assert "t2t_streams 1.0" in client.get("/metrics").text
        closing = start_thread(service.streams.close)
        gated.wait_for_end()
        join_all(closing, first)
        assert '"error"' in answers[0]
        assert client.post("/translate", json=asked).status_code == 429


def test_a_client_that_goes_away_ends_its_search(gated):
    service = Service([gated])
    with open_socket("127.0.0.1", 0) as listening:
        config = uvicorn.Config(build_app(service, ["127.0.0.1"]), log_config=None, http=LimitedProtocol, lifespan="on")
        server = uvicorn.Server(config)
        running = start_thread(server.run, [listening])
        try:
            with socket.create_connection(listening.getsockname(), timeout=LIMIT_S) as client:
                body = b'{"text": "a", "stream": true}'
                client.sendall(b"POST /translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(body))
                client.sendall(body)
                gated.gate.release()
                received = b""
                while b"word" not in received:
                    part = client.recv(1000)
                    assert part, received
                    received += part
            gated.wait_for_end()
            wait_until(lambda: service.streams.running == 0, "no stream runs")
        finally:
            server.should_exit = True
            join_all(running)
