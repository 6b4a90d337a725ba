"""Streamed answers: their pieces, joined, are the answer that is not streamed."""

import itertools
import json
import socket
import threading

import pytest
import uvicorn
from starlette.testclient import TestClient

from t2t.serving.app import build_app
from t2t.serving.connections import LimitedProtocol
from t2t.serving.models import PartialAnswer, ServedModel
from t2t.serving.server import open_socket
from t2t.serving.service import RequestLimits, Service
from t2t.text.byte import ByteEncoder
from tests.letters import TEXTS, Letters, letters, letters_alone, translator_of
from tests.waiting import join_all, start_thread, wait_until


@pytest.fixture(scope="module")
def service():
    in_bytes = Letters().with_encoders(dict.fromkeys(("inputs", "targets"), ByteEncoder()))
    problems = {"letters": letters(), "bytes": in_bytes, "alone": letters_alone()}
    return Service([ServedModel(name, translator_of(problem), 1) for name, problem in problems.items()])


@pytest.fixture(scope="module")
def client(service):
    with TestClient(build_app(service, ["127.0.0.1"]), base_url="http://127.0.0.1") as client:
        yield client


def events_of(answer):
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = answer.text.split("\n\n")
    assert events.pop() == ""
    assert all(event.startswith("data: ") for event in events)
    return [event.removeprefix("data: ") for event in events]


SEARCHES = [
    {"beam_size": 1},
    {"beam_size": 4, "n_best": 2},
    {"decode_method": "sample", "seed": 3, "n_best": 2, "sampling_temperature": 2.0},
]


@pytest.mark.parametrize("model", ["letters", "bytes", "alone"])
@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_pieces_make_the_translation(client, model, search):
    for text in TEXTS:
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
        for text in [*TEXTS, ""]:
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


def test_a_model_that_cannot_stream_answers_in_one_piece(client, service, monkeypatch):
    model = service.models["letters"]
    whole = client.post("/translate", json={"text": "a b c"}).json()
    monkeypatch.setattr(ServedModel, "can_stream", False)
    monkeypatch.setattr(model, "stream", None)
    piece, last = map(json.loads, events_of(client.post("/translate", json={"text": "a b c", "stream": True})))
    assert (piece, last) == ({"output": 0, "delta": whole["text"]}, whole)


def test_what_goes_wrong_before_the_first_event_has_its_status(client):
    answer = client.post("/translate", json={"text": "a", "beam_size": 99, "stream": True})
    assert (answer.status_code, answer.json()["error"][:12]) == (400, "beam_size=99")
    answer = client.post("/translate", json={"text": ["a", "b"], "stream": True})
    assert "stream: 2 texts are asked for, and one is written at a time; send one, or ask without" in answer.text


# === A model whose steps the test allows ===


@pytest.fixture
def gated(monkeypatch):
    """A model that adds a word each time its gate is released."""
    gate, ended = threading.Semaphore(0), threading.Event()

    def stream(self, question):
        try:
            for count in itertools.count(1):
                assert gate.acquire(timeout=60)
                yield PartialAnswer(["word " * count], None)
        finally:
            ended.set()

    monkeypatch.setattr(ServedModel, "stream", stream)
    yield ServedModel("gated", translator_of(letters()), 1), gate, ended
    gate.release(2000)


def client_of(model, **limits):
    service = Service([model], RequestLimits(**limits))
    return TestClient(build_app(service, ["127.0.0.1"]), base_url="http://127.0.0.1"), service


@pytest.mark.parametrize("path", ["/translate", "/v1/completions"])
def test_an_answer_that_takes_too_long_ends_with_an_error_and_its_search_too(gated, path):
    model, gate, ended = gated
    client, _ = client_of(model, seconds=10.0)
    gate.release()
    with client:
        name = "text" if path == "/translate" else "prompt"
        *_, last = events_of(client.post(path, json={name: "a", "stream": True}))
        gate.release()  # one more step, after which it is stopped
        assert ended.wait(60)
    error = json.loads(last)["error"]
    assert "no answer within 10 seconds; ask for less" in (error if path == "/translate" else error["message"])


def test_more_streams_than_allowed_are_answered_429(gated):
    model, gate, ended = gated
    client, service = client_of(model, streams=1, seconds=60.0)
    with client:
        first = start_thread(lambda: client.post("/translate", json={"text": "a", "stream": True}))
        wait_until(lambda: service.streams.running == 1, "one stream runs")
        refused = client.post("/v1/completions", json={"prompt": "a", "stream": True})
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        error = refused.json()["error"]
        assert error["type"] == "rate_limit_error"
        assert error["message"] == "too much is waiting: 1 of 1 streams taken; ask again later"
        assert client.post("/translate", json={"text": "a"}).status_code == 200  # other requests are still answered
        assert "t2t_streams 1.0" in client.get("/metrics").text
        closing = start_thread(service.streams.close)
        wait_until(lambda: gate.release() or ended.wait(0.05), "the search has ended")
        join_all(closing, first)


def test_a_client_that_goes_away_ends_its_search(gated):
    model, gate, ended = gated
    service = Service([model])
    with open_socket("127.0.0.1", 0) as listening:
        config = uvicorn.Config(build_app(service, ["127.0.0.1"]), log_config=None, http=LimitedProtocol, lifespan="on")
        server = uvicorn.Server(config)
        running = start_thread(server.run, [listening])
        try:
            with socket.create_connection(listening.getsockname(), timeout=60) as client:
                body = b'{"text": "a", "stream": true}'
                client.sendall(b"POST /translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(body))
                client.sendall(body)
                gate.release()
                received = b""
                while b"word" not in received:
                    part = client.recv(1000)
                    assert part, received
                    received += part
            # After each step the server can notice that the client is gone; otherwise it would never end.
            wait_until(lambda: gate.release() or ended.wait(0.05), "the search has ended")
            wait_until(lambda: service.streams.running == 0, "no stream runs")
        finally:
            server.should_exit = True
            join_all(running)


def test_closing_ends_streams(gated):
    model, gate, ended = gated
    client, service = client_of(model, seconds=60.0)
    with client:
        answers = []
        first = start_thread(lambda: answers.append(client.post("/translate", json={"text": "a", "stream": True}).text))
        wait_until(lambda: service.streams.running == 1, "one stream runs")
        closing = start_thread(service.streams.close)
        wait_until(lambda: gate.release() or ended.wait(0.05), "the search has ended")
        join_all(closing, first)
        assert "the service ends" in answers[0]
        assert client.post("/translate", json={"text": "a", "stream": True}).status_code == 429


def test_a_bug_in_a_search_is_the_last_event(client, service, monkeypatch, caplog):
    def broken(self, question):
        yield PartialAnswer(["a"], None)
        raise RuntimeError("a bug")

    monkeypatch.setattr(ServedModel, "stream", broken)
    *_, last = events_of(client.post("/translate", json={"text": "a", "stream": True}))
    assert json.loads(last) == {"error": "internal error (RuntimeError); the log of the server has the details"}
    assert "/translate: a request failed" in caplog.text
