"""OpenAI's routes, and streamed answers: what existing clients expect."""

import itertools
import json
import socket
import threading

import jsonschema
import pytest
import uvicorn

from t2t.problems.text_files import Text2TextFiles
from t2t.serving.connections import LimitedProtocol, open_socket
from t2t.serving.engine import ServingEngine
from t2t.serving.models import PartialAnswer, ServedModel
from t2t.serving.routes import build_app
from t2t.specs import EOS_ID
from tests.letters import TEXTS
from tests.unit.problems.test_problems_languages import encoder_of
from tests.unit.serving.conftest import events_of, serving, various
from tests.waiting import LIMIT_S, join_all, start_thread, wait_until

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


def message(*contents):
    return [{"role": "user", "content": content} for content in contents]


def best(translator, text, **changes):
    return translator.translate([text], **changes)[0][0].text


def check_described(client, asked):
    """The description of the service allows a completion request."""
    document = client.get("/openapi.json").json()
    schema = document["paths"][COMPLETIONS]["post"]["requestBody"]["content"]["application/json"]["schema"]
    jsonschema.validate(asked, {**schema, "components": document["components"]})


def test_a_prompt_is_searched_as_the_run_does(client, translator):
    answer = client.post(COMPLETIONS, json={"model": "letters", "prompt": "a b c"}).json()
    (hypothesis,) = translator.translate(["a b c"])[0]
    (choice,) = answer["choices"]
    assert (answer["object"], answer["model"], choice["text"]) == ("text_completion", "letters", hypothesis.text)
    assert choice["finish_reason"] == ("stop" if hypothesis.ids[-1] == EOS_ID else "length")
    length = len(hypothesis.ids)
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": length, "total_tokens": 3 + length}


def test_each_prompt_has_as_many_choices_as_are_asked_for(client, translator):
    prompts = ["", "a b", "c"]
    choices = client.post(COMPLETIONS, json={"prompt": prompts, "n": 2}).json()["choices"]
    expected = [one.text for row in translator.translate(prompts, 2) for one in (row * 2)[:2]]
    assert [(one["index"], one["text"]) for one in choices] == list(enumerate(expected))


def test_the_last_message_of_the_user_is_answered(client, translator):
    messages = [{"role": "system", "content": "Translate."}, *message("h"), {"role": "assistant", "content": "g"}]
    parts = [{"type": "text", "text": "a b"}, {"type": "text", "text": " c"}]
    for content in ("a b c", parts):
        answer = client.post(CHAT, json={"model": "letters", "messages": [*messages, *message(content)]}).json()
        assert answer["object"] == "chat.completion"
        assert answer["choices"][0]["message"] == {"role": "assistant", "content": best(translator, "a b c")}


def test_outputs_hold_what_a_request_asks_for(client, translator):
    terms = {"constraints": ["h g"], "avoid": ["a"]}
    expected = best(translator, "a b c", constraints=[terms])
    assert expected != best(translator, "a b c")
    assert "h g" in expected
    assert "a" not in expected
    asked = {**terms, "choices": None}
    check_described(client, {"prompt": "a b c", **asked})
    (choice,) = client.post(COMPLETIONS, json={"prompt": "a b c", **asked}).json()["choices"]
    assert choice["text"] == expected
    (choice,) = client.post(CHAT, json={"messages": message("a b c"), **asked}).json()["choices"]
    assert choice["message"]["content"] == expected
    streamed = client.post(COMPLETIONS, json={"prompt": "a b c", "stream": True, **asked})
    *events, end = [event.removeprefix("data: ") for event in streamed.text.split("\n\n") if event]
    assert ("".join(json.loads(event)["choices"][0]["text"] for event in events), end) == (expected, "[DONE]")
    plain = client.post("/translate", json={"text": ["a b c", "d"], **asked}).json()["translations"]
    both = [best(translator, text, constraints=[terms]) for text in ("a b c", "d")]
    assert [one["outputs"][0]["text"] for one in plain] == both
    limited = client.post(COMPLETIONS, json={"prompt": "a", "max_tokens": 2, "constraints": ["h g f e"]}).json()
    assert "h g f e" in limited["choices"][0]["text"]


@pytest.mark.parametrize("model", ["letters", "alone", "bytes"])
def test_an_output_ends_before_a_stop_and_may_begin_with_its_prompt(client, model):
    """Streamed or not; a stop of several characters may come in several pieces. Neither then searches any further."""
    (choice,), usage = map(
        client.post(COMPLETIONS, json={"model": model, "prompt": "a b", "temperature": 0}).json().get,
        ("choices", "usage"),
    )
    whole = choice["text"]
    stop = whole[len(whole) // 2 :][:3]
    expected = whole[: whole.index(stop)]
    asked = {"model": model, "prompt": "a b", "temperature": 1e-6, "stop": [stop, "none"], "echo": True, "n": 2}
    found = client.post(COMPLETIONS, json=asked).json()
    assert [(one["text"], one["finish_reason"]) for one in found["choices"]] == [("a b" + expected, "stop")] * 2
    assert found["usage"]["completion_tokens"] < usage["completion_tokens"]
    several = client.post(COMPLETIONS, json={**asked, "prompt": ["a b", "c"]}).json()["choices"]
    assert [one["text"] for one in several[:2]] == ["a b" + expected] * 2
    streamed = {**asked, "stream": True, "stream_options": {"include_usage": True}}
    *events, last, _ = events_of(client.post(COMPLETIONS, json=streamed))
    check_chunks(list(map(json.loads, events)), found, is_chat=False)
    assert json.loads(last)["usage"] == found["usage"]
    if model == "letters":
        (scored,) = client.post(COMPLETIONS, json={**asked, "n": 1, "logprobs": 0}).json()["choices"]
        assert (scored["text"], len(scored["logprobs"]["tokens"])) == ("a b" + expected, usage["completion_tokens"])


def test_log_probabilities_are_those_of_the_tokens_written(client, translator):
    (expected,) = translator.translate(["a b"], token_scores=True)[0]
    (choice,) = client.post(COMPLETIONS, json={"prompt": "a b", "logprobs": 0}).json()["choices"]
    found = choice["logprobs"]
    assert [*zip(found["tokens"], found["token_logprobs"], strict=True)] == [*expected.tokens]
    assert sum(found["token_logprobs"]) == pytest.approx(expected.log_prob, abs=1e-4)
    (choice,) = client.post(CHAT, json={"messages": message("a b"), "logprobs": True}).json()["choices"]
    assert [(one["token"], one["logprob"]) for one in choice["logprobs"]["content"]] == [*expected.tokens]


def test_as_many_outputs_as_are_asked_for_have_a_beam(client, translator):
    choices = client.post(COMPLETIONS, json={"prompt": "a b", "n": 5}).json()["choices"]
    (expected,) = translator.translate(["a b"], 5, beam_size=5)
    assert [one["text"] for one in choices] == [one.text for one in expected]


def test_a_language_model_gives_what_it_adds_to_the_prompt_at_most_max_tokens(client, continuer):
    for prompt in ("a b", "", "never  seen"):
        whole = best(continuer, prompt)
        read = continuer.problem.decode_target(continuer.encode([prompt])[0])
        assert whole.startswith(read)
        answer = client.post(COMPLETIONS, json={"model": "alone", "prompt": prompt}).json()
        assert read + answer["choices"][0]["text"] == whole
        assert answer["usage"]["completion_tokens"] == len(continuer.translate([prompt])[0][0].ids) - len(read.split())
    found = client.post(CHAT, json={"model": "alone", "messages": message("a b"), "max_completion_tokens": 1}).json()
    assert found["usage"]["completion_tokens"] == 1
    assert f"a b{found['choices'][0]['message']['content']}" == best(continuer, "a b", extra_length=1)


@pytest.mark.parametrize(("most_tokens", "search"), [((4, 5, 100), {}), ((5,), {"temperature": 0})])
def test_max_tokens_is_kept_to(client, translator, most_tokens, search):
    """The input has three letters and end of sequence, and outputs may have five more ids: 4 to 9."""
    for most in most_tokens:
        found = client.post(COMPLETIONS, json={"prompt": "a b c", "max_tokens": most, **search}).json()
        changes = {"decode_method": "greedy"} if search else {}
        assert found["choices"][0]["text"] == best(translator, "a b c", extra_length=min(most - 4, 5), **changes)
        assert found["usage"]["completion_tokens"] <= most


@pytest.mark.parametrize("source", ["begin", "end"])
def test_max_tokens_is_kept_to_wherever_the_input_has_its_language_code(source):
    encoder = encoder_of(source=source)
    problem = Text2TextFiles(source_language="eng_Latn", target_language="deu_Latn")
    translator = various(problem.with_encoders({"inputs": encoder, "targets": encoder}))
    free = len(encoder.encode("one two")) + 2  # a code and end of sequence
    with serving(ServedModel("codes", translator, 1)) as (client, _):
        answer = client.post(COMPLETIONS, json={"prompt": "one two", "max_tokens": free - 1})
        assert f" {free} " in answer.json()["error"]["message"]
        found = client.post(COMPLETIONS, json={"prompt": "one two", "max_tokens": free + 2}).json()
        assert found["usage"]["completion_tokens"] <= free + 2


def test_what_clients_send_by_default_is_taken(client, translator):
    defaults = {
        "frequency_penalty": 0, "presence_penalty": 0.0, "logprobs": None, "stop": None, "user": "me", "echo": False,
        "logit_bias": {}, "best_of": 1, "suffix": None, "stream": False, "stream_options": None, "n": 1,
    }  # fmt: skip
    check_described(client, {"prompt": "a", **defaults})
    answer = client.post(COMPLETIONS, json={"model": "letters", "prompt": "a", **defaults})
    assert answer.json()["choices"][0]["text"] == best(translator, "a")


# === Streamed answers: their pieces, joined, are the answer that is not streamed ===
SEARCHES = [
    ("letters", {"decode_method": "greedy"}), ("bytes", {"n_best": 2}),
    ("alone", {"decode_method": "sample", "seed": 3, "n_best": 2, "sampling_temperature": 1.5}),
]  # fmt: skip
"""Models and searches, which are compiled once for all tests of streams."""


@pytest.mark.parametrize(("model", "search"), SEARCHES, ids=str)
def test_pieces_make_the_translation(client, model, search):
    for text in TEXTS[1:3]:
        asked = {"text": text, "model": model, **search}
        *pieces, last = map(json.loads, events_of(client.post("/translate", json={**asked, "stream": True})))
        written = {}
        for piece in pieces:
            written[piece["output"]] = written.get(piece["output"], "") + piece["delta"]
            assert piece["delta"]
        outputs = [one["text"] for one in last["translations"][0]["outputs"]]
        assert [written.get(number, "") for number in range(len(outputs))] == outputs
        whole = client.post("/translate", json=asked).json()
        assert [one["text"] for one in whole["translations"][0]["outputs"]] == outputs
        assert set(last) == set(whole)


def test_an_accept_header_asks_for_events_too_and_a_model_that_cannot_stream_answers_in_one_piece(client, translator):
    asked = {"text": ["a b"]}
    *_, last = events_of(client.post("/translate", json=asked, headers={"accept": "text/event-stream"}))
    assert "translations" in json.loads(last)
    with serving(Whole("whole", translator, 1)) as (client, _):
        whole = client.post("/translate", json={"text": "a b c"}).json()
        piece, last = map(json.loads, events_of(client.post("/translate", json={"text": "a b c", "stream": True})))
    assert (piece, last) == ({"output": 0, "delta": whole["text"]}, whole)


BEAM, GREEDY, SAMPLES = {"n": 2}, {"temperature": 0}, {"temperature": 1.5, "seed": 3, "n": 2}
CHUNKS = [
    *((COMPLETIONS, "letters", search) for search in (BEAM, GREEDY, SAMPLES)), (CHAT, "letters", BEAM),
    *((path, "bytes", BEAM) for path in (COMPLETIONS, CHAT)), (COMPLETIONS, "bytes", SAMPLES),
    *((CHAT, "alone", search) for search in (GREEDY, SAMPLES)), (COMPLETIONS, "alone", SAMPLES),
]  # fmt: skip


@pytest.mark.parametrize(("path", "model", "search"), CHUNKS, ids=str)
def test_chunks_make_the_completion(client, path, model, search):
    for text in (TEXTS[2], ""):
        prompt = {"messages": message(text)} if path == CHAT else {"prompt": text}
        asked = {"model": model, **prompt, **search}
        more = {"stream": True, "stream_options": {"include_usage": True}}
        *events, done = events_of(client.post(path, json={**asked, **more}))
        assert done == "[DONE]"
        *chunks, last = map(json.loads, events)
        whole = client.post(path, json=asked).json()
        assert last["choices"] == []
        assert last["usage"] == whole["usage"]
        check_chunks(chunks, whole, is_chat=path == CHAT)


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

    def __init__(self, translator, name="gated"):
        super().__init__(name, translator, 1)
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


def test_an_answer_that_takes_too_long_ends_with_an_error_and_its_search_too(translator):
    models, found = [Gated(translator, name) for name in ("gated", "other")], {}

    def ask(path, **body):
        *_, last = events_of(client.post(path, json={"stream": True, **body}))
        found[path] = json.loads(last)["error"]

    with serving(*models, seconds=5.0) as (client, _):  # time enough for a first piece on a busy machine
        for model in models:
            model.gate.release()
        join_all(
            start_thread(lambda: ask("/translate", text="a", model="gated")),
            start_thread(lambda: ask("/v1/completions", prompt="a", model="other")),
        )
        for model in models:
            model.wait_for_end()
    assert " 5 seconds" in found["/translate"]
    assert " 5 seconds" in found["/v1/completions"]["message"]


def test_more_streams_than_allowed_wait_or_are_answered_429_and_the_end_is_503(gated):
    """One runs and one waits. When the service stops, neither waits for a further step."""
    answers = []
    with serving(gated, streams=1, waiting_jobs=1, seconds=LIMIT_S) as (client, service):
        asked = {"text": "a", "stream": True}
        gated.gate.release()
        first = start_thread(lambda: answers.append(client.post("/translate", json=asked).text))
        wait_until(lambda: service.streams.running == 1, "one stream runs")
        second = start_thread(
            lambda: answers.append(client.post(CHAT, json={"messages": message("a"), "stream": True}))
        )
        wait_until(lambda: service.streams.waiting == 1, "one stream waits")
        refused = client.post("/v1/completions", json={"prompt": "a", "stream": True})
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        error = refused.json()["error"]
        assert error["type"] == "rate_limit_error"
        assert " 1 of 1 " in error["message"]
        assert client.post("/translate", json={"text": "a"}).status_code == 200  # other requests are still answered
        assert "t2t_streams 1.0" in client.get("/metrics").text
        client.portal.call(service.stop)
        join_all(second, first)
        late, begun = sorted(answers, key=str)
        assert (late.status_code, late.json()["error"]["type"]) == (503, "server_error")
        assert '"error"' in begun
        gated.wait_for_end()
        assert service.streams.close()
        assert client.post("/translate", json=asked).status_code == 503
        assert service.unanswered == 3


def test_a_client_that_goes_away_ends_its_search(gated):
    service = ServingEngine([gated])
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
