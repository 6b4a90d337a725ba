"""The server's routes, requested as by clients."""

import asyncio
import json
import logging
import threading
from types import SimpleNamespace

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from t2t.cli.server import named_runs
from t2t.errors import UserError
from t2t.hparams.groups import DecodeHParams
from t2t.inference.settings import search_settings
from t2t.inference.translator import Hypothesis, Translator
from t2t.serving.app import build_app
from t2t.serving.models import Answer, BatchLimits, ServedModel
from t2t.serving.plain_answers import translations
from t2t.serving.service import RequestLimits, Service
from tests.readme import ROOT, blocks
from tests.unit.inference.test_inference_translator import Letters, LettersAlone, build
from tests.waiting import join_all, start_thread, wait_until

TEXTS = ["a b c", "d", "", "h g f e"]
HOSTS = ["127.0.0.1"]


@pytest.fixture(scope="module")
def translator():
    return build(Letters)


def client_of(*models, **limits):
    app = build_app(Service(models, RequestLimits(**limits)), HOSTS)
    return TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=True)


@pytest.fixture(scope="module")
def client(translator):
    models = [
        ServedModel("letters", translator, 40, n_best=2), ServedModel("other", build(Letters, seed=9), 7),
        ServedModel("alone", build(LettersAlone), 3),
    ]  # fmt: skip
    with client_of(*models, most_bytes=2000, most_texts=5) as client:
        yield client


def expected_of(translator, n_best):
    return [
        [(one.text, pytest.approx(one.score, rel=1e-4)) for one in translator.translate([text], n_best)[0]]
        if text.strip() else [("", 0.0)]
        for text in TEXTS
    ]  # fmt: skip


@pytest.mark.slow
def test_predictions_by_rows_are_those_of_the_translator(client, translator):
    expected = expected_of(translator, 2)
    for instances in (TEXTS, [{"text": text} for text in TEXTS]):
        answer = client.post("/v1/models/letters:predict", json={"instances": instances})
        assert answer.status_code == 200
        rows = answer.json()["predictions"]
        assert [list(zip(row["outputs"], row["scores"], strict=True)) for row in rows] == expected


def test_predictions_by_columns_are_the_same(client, translator):
    for inputs in (TEXTS, {"text": TEXTS}):
        asked = {"inputs": inputs, "signature_name": "serving_default"}
        found = client.post("/v1/models/letters/versions/40:predict", json=asked).json()["outputs"]
        pairs = [list(zip(*row, strict=True)) for row in zip(found["outputs"], found["scores"], strict=True)]
        assert pairs == expected_of(translator, 2)


def test_a_plain_request_of_one_text_or_several(client, translator):
    (best,) = translator.translate(["a b c"])[0]
    one = client.post("/translate", json={"text": "a b c", "n_best": 1}).json()
    output = {"text": best.text, "score": pytest.approx(best.score), "log_prob": pytest.approx(best.log_prob)}
    assert one == {"model": "letters", "text": best.text, "translations": [{"outputs": [output], "cut": False}]}
    many = client.post("/translate", json={"text": TEXTS, "n_best": 3}).json()
    assert [[(o["text"], o["score"]) for o in row["outputs"]] for row in many["translations"]] == expected_of(
        translator, 3
    )
    assert "text" not in many


def test_the_response_on_the_page_has_this_form():
    (shown,) = [one.text for one in blocks(ROOT / "docs/serving.md") if one.language == "json"]
    best = Hypothesis("einundzwanzig Katzen", (), -0.3417, -0.5179)
    assert json.loads(shown) == translations("ende", [Answer([best], cut=False)], is_one=True)


def test_outputs_hold_what_a_request_asks_for(client, translator):
    terms = {"constraints": ["h g"], "avoid": ["a"]}
    found = client.post("/translate", json={"text": ["a b c", "d"], **terms, "choices": None}).json()["translations"]
    expected = translator.translate(["a b c", "d"], constraints=[terms, terms])
    assert [one["outputs"][0]["text"] for one in found] == [best.text for best, *_ in expected]
    assert all("h g" in best.text and "a" not in best.text for best, *_ in expected)
    for asked, message in (
        ({"constraints": ["z"]}, "the vocabulary of outputs cannot spell it"),
        ({"regex": "a"}, "is no part of a request"),
        ({"avoid": "a"}, "a list of texts is wanted"),
    ):
        answer = client.post("/translate", json={"text": "a b", **asked})
        assert answer.status_code == 400
        assert message in answer.text


def test_lines_of_plain_text_give_lines(client, translator):
    expected = [translator.translate([text])[0][0].text if text else "" for text in TEXTS]
    plain = {"content-type": "text/plain; charset=utf-8"}
    answer = client.post("/translate", content="\n".join(TEXTS) + "\n", headers=plain)
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.text == "\n".join(expected) + "\n"
    assert client.post("/translate", content="a b c", headers=plain).text == expected[0]
    assert client.post("/translate", content=b"a \xff", headers=plain).status_code == 200
    assert client.post("/translate", content="a b c\r\nd\r\n", headers=plain).text == "\n".join(expected[:2]) + "\n"


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("Text/Plain", 200), ('text/plain;charset="UTF-8"', 200), ("text/plain; Charset=us-ascii", 200),
        ("text/plain; charset=iso-8859-1", 415), ("text/plainer", 400), ("", 400),
    ],
)  # fmt: skip
def test_plain_text_is_named_as_in_http_and_is_utf_8(client, content_type, status):
    answer = client.post("/translate", content="a", headers={"content-type": content_type})
    assert answer.status_code == status
    if status == 415:
        assert answer.json() == {"error": "charset 'iso-8859-1': lines are read as UTF-8; send them so"}


def test_models_are_told_apart_by_name(client):
    found = {
        name: client.post("/translate", json={"text": "a b", "model": name}).json() for name in ("letters", "other")
    }
    assert found["letters"]["text"] != found["other"]["text"]
    assert found["other"]["model"] == "other"


@pytest.mark.parametrize(
    ("query", "body", "model"),
    [({"model": "other"}, {}, "other"), ({"model": "other"}, {"model": "other"}, "other"), ({}, {}, "letters")],
)
def test_a_model_is_named_in_the_query_or_the_body(client, query, body, model):
    answer = client.post("/translate", params=query, json={"text": "a b", **body})
    assert (answer.status_code, answer.json()["model"]) == (200, model)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({}, 404, "model 'letter' is not served; did you mean letters or other? there are letters, other, alone"),
        ({"model": "other"}, 400, "model 'other' in the body, 'letter' in the query: name one, in one of them"),
        ({"model": 3}, 400, "model 3 in the body, 'letter' in the query: name one, in one of them"),
    ],
)
def test_a_wrong_name_in_the_query_is_refused(client, body, status, said):
    answer = client.post("/translate", params={"model": "letter"}, json={"text": "a", **body})
    assert (answer.status_code, answer.json()["error"]) == (status, said)


def test_a_language_model_goes_on_from_nothing(client):
    assert client.post("/translate", json={"text": "", "model": "alone"}).json()["text"]


def test_long_texts_are_cut_and_said_so():
    model = ServedModel("short", build(Letters, max_input_length=3), 1)
    with client_of(model) as client:
        found = client.post("/translate", json={"text": ["a b", "a b c"]}).json()["translations"]
    assert [one["cut"] for one in found] == [False, True]


@pytest.mark.parametrize("text", ["\ud800 a", "a\0b", "\u202e\u0000", "😀 <b>", "a\nb"])
def test_any_text_is_answered(client, text):
    import json

    answer = client.post("/translate", content=json.dumps({"text": text}))
    assert answer.status_code == 200
    assert len(answer.json()["translations"]) == 1


def test_what_is_served_is_told(client):
    named = client.get("/v1/models").json()
    assert named["models"] == [one["id"] for one in named["data"]] == ["letters", "other", "alone"]
    state = {"version": "40", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    version = client.get("/v1/models/letters/versions/40").json()
    assert version == {"model_version_status": [state]}
    assert client.get("/v1/models/letters").json() == version | named["data"][0]
    assert client.get("/healthz").json() == {"status": "ok", "models": ["letters", "other", "alone"]}


@pytest.mark.parametrize("version", ["41", "040", "+40", "x", "9" * 5000])
def test_a_version_is_named_by_its_step_alone(client, version):
    answer = client.get(f"/v1/models/letters/versions/{version}")
    said = f"version {version[:60]} of model 'letters' is not served; there is 40"
    assert (answer.status_code, answer.json()) == (404, {"error": said})


MISTAKES = [
    ("/v1/models/letter:predict", {"instances": ["a"]}, 404, r"model 'letter' is not served; did you mean letters"),
    (
        "/v1/models/letters/versions/41:predict",
        {"instances": ["a"]},
        404,
        "version 41 of model 'letters' is not served",
    ),
    ("/v1/models/letters:predict", {}, 400, 'has either "instances", row by row, or "inputs", by columns; send one'),
    ("/v1/models/letters:predict", {"instances": ["a"], "inputs": ["a"]}, 400, "has either"),
    ("/v1/models/letters:predict", {"instances": []}, 400, "instances: a list of one or more texts is wanted"),
    ("/v1/models/letters:predict", {"instances": [3]}, 400, "instances: a list of one or more texts is wanted"),
    ("/v1/models/letters:predict", {"inputs": "a"}, 400, "inputs: a list of one or more texts is wanted"),
    (
        "/v1/models/letters:predict",
        {"instances": ["a"], "signature_name": "x"},
        400,
        "there is serving_default; ask for",
    ),
    *(
        (
            "/v1/models/letters:predict",
            {form: ["a"], **more},
            400,
            f"^{key!r} is no part of a request; there are signature_name, instances, inputs$",
        )
        for form, more, key in [
            ("instances", {"n_best": 2, "constraints": ["c"]}, "constraints"),
            ("inputs", {"text": None}, "text"),
        ]
    ),
    ("/v1/models/letters:predict", {"instances": ["a"] * 6}, 413, "6 texts, at most 5; send fewer at once"),
    ("/v1/models/letters:predict", {"instances": ["a" * 3000]}, 413, "the body is larger than 2,000 bytes; send less"),
    ("/v1/models/letters:predict", [], 400, "the body is a JSON list; send an object"),
    (
        "/translate",
        {"text": "a", "beam": 3},
        400,
        "'beam' is no part of a request; there are text, model, n_best, stream, decode_me",
    ),
    ("/translate", {"text": "a", "n_best": "2"}, 400, "n_best '2': a whole number from 1 is wanted"),
    ("/translate", {"text": "a", "n_best": 4}, 400, "n_best=4: beam search of width 3 has from 1 to 3 hypotheses"),
    ("/translate", {"text": {}}, 400, "text: a list of one or more texts is wanted"),
    (
        "/translate",
        {"text": "a", "model": "none"},
        404,
        "model 'none' is not served; .*there are letters, other, alone",
    ),
    ("/translate", {"text": "a", "model": ["x"]}, 404, r"model \['x'\] is not served"),
    ("/translate", {"text": "a", "model": "x" * 999}, 404, "^model 'x{199} is not served; there are letters, other"),
    ("/translate", {"text": "a", "n_best": "x" * 999}, 400, "^n_best 'x{59}: a whole number from 1 is wanted$"),
    ("/translate", {"text": "a", "x" * 999: 1}, 400, "^'x{59} is no part of a request; there are text, "),
]


@pytest.mark.parametrize(("path", "asked", "status", "message"), MISTAKES)
def test_mistakes_are_answered_in_one_line(client, path, asked, status, message):
    answer = client.post(path, json=asked)
    assert answer.status_code == status
    (error,) = answer.json().values()
    assert "\n" not in error
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(error)


def test_a_body_that_is_no_json(client):
    answer = client.post("/translate", content="{")
    assert (answer.status_code, answer.json()["error"][:24]) == (400, "the body is no JSON: Exp")
    assert client.get("/translate").status_code == 405
    assert client.get("/nowhere").status_code == 404


def test_other_names_of_this_machine_are_refused(client):
    assert client.get("/healthz", headers={"host": "evil.example"}).status_code == 400


def counted(client, name):
    """The value of a counter; 0.0 before its first event."""
    lines = [line.rpartition(" ") for line in client.get("/metrics").text.splitlines() if not line.startswith("#")]
    return {line[0]: float(line[2]) for line in lines}.get(name, 0.0)


def test_requests_and_texts_are_counted(client):
    requests, texts = 't2t_requests_total{path="/translate",status="200"}', 't2t_texts_total{model="letters"}'
    before = [counted(client, name) for name in (requests, texts)]
    client.post("/translate", json={"text": "a"})
    client.post("/translate", json={"text": TEXTS})
    assert [counted(client, name) for name in (requests, texts)] == [before[0] + 2, before[1] + 1 + len(TEXTS)]
    assert counted(client, 't2t_waiting_texts{model="letters"}') == 0


def test_what_is_refused_is_one_line_in_the_log(client, caplog):
    with caplog.at_level(logging.INFO, "t2t"):
        client.post("/translate", json={"text": "a", "model": "no\u001b[2Jne"})
        client.post("/translate", content="{")
    refused = [record.getMessage() for record in caplog.records]
    assert refused[0].startswith(r"refused: 404 /translate: model 'no\x1b[2Jne' is not served; ")
    assert refused[1].startswith("refused: 400 /translate: the body is no JSON: ")
    assert len(refused) == 2
    assert not any(character < " " for line in refused for character in line)


def test_a_bug_is_answered_500_with_its_traceback_in_the_log(client, translator, caplog, monkeypatch):
    def broken(*arguments, **more):
        raise RuntimeError("a bug\nin lines")

    monkeypatch.setattr(translator, "translate_ids", broken)
    answer = client.post("/translate", json={"text": "a"})
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/json")
    assert answer.json() == {"error": "internal error (RuntimeError); the log of the server has the details"}
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.getMessage() == "/translate: a request failed"
    assert record.exc_info[0] is RuntimeError


def received_of(limits, parts, headers=()):
    """Reads the body of a request that arrives in parts; returns the body or the error, and the unread parts."""
    left = iter(parts)

    async def receive():
        part = next(left)
        if part is None:
            await asyncio.sleep(60)
        return {"type": "http.request", "body": part, "more_body": True}

    service = Service([], RequestLimits(**limits))
    scope = {"type": "http", "method": "POST", "headers": [(b"content-length", str(n).encode()) for n in headers]}
    try:
        found = asyncio.run(service.body(Request(scope, receive)))
    except Exception as error:
        found = error
    service.close()
    return found, list(left)


@pytest.mark.parametrize(("declared", "unread"), [((), 7), ((7,), 7), ((1000,), 10)])
def test_no_more_of_a_large_body_is_read_than_the_limit(declared, unread):
    error, left = received_of({"most_bytes": 8}, [b"abc"] * 10, declared)
    assert (error.status_code, len(left)) == (413, unread)
    assert error.detail == "the body is larger than 8 bytes; send less at once"


def test_a_slow_body_is_answered_408_and_its_connection_closed():
    error, left = received_of({"body_seconds": 0.05}, [b"abc", None, b"def"])
    assert (error.status_code, left) == (408, [b"def"])
    assert error.detail == "the body did not arrive within 0.05 seconds; send less at once"
    assert error.headers == {"Connection": "close"}


def test_a_closed_service_does_not_wait_until_a_job_ends(caplog):
    gate, begun, service = threading.Event(), threading.Event(), Service([])

    def job():
        begun.set()
        return gate.wait(30)

    found = []
    asking = start_thread(lambda: found.append(asyncio.run(service.run(job))))
    assert begun.wait(30)
    service.close(0.05)
    assert not found, "it still runs"
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert said == ["closed while work was running, after 0.05 s; it is not finished"]
    gate.set()
    join_all(asking)
    service.close()
    assert found == [True]


class Slow:
    """A translator that blocks until its gate is opened."""

    has_inputs, reads_text, longest_input, is_blank, is_built = True, True, 100, Translator.is_blank, True
    facts, hparams, model_engine = SimpleNamespace(autoregressive=True), DecodeHParams(), SimpleNamespace(devices=[""])

    def __init__(self):
        self.gate, self.begun = threading.Event(), threading.Semaphore(0)
        self.is_checking = False

    def settings(self, n_best, **changes):
        return search_settings(self.hparams, n_best, 0, changes)

    def encode(self, texts):
        return [[1]] * len(texts)

    def check_terms(self, terms, n_best, **changes):
        self.is_checking = True
        self.begun.release()
        assert self.gate.wait(30)
        self.is_checking = False

    def translate_ids(self, ids, n_best, seeds, sources, constraints=None):
        self.begun.release()
        assert self.gate.wait(30)
        return [[type("One", (), {"text": text.upper(), "score": 0.0, "log_prob": 0.0})()] for text in sources]


@pytest.fixture
def slow():
    translator = Slow()
    yield translator
    translator.gate.set()


def test_while_constraints_are_checked_others_are_answered(slow):
    answers = []
    with client_of(ServedModel("slow", slow, 1)) as client:
        thread = start_thread(lambda: answers.append(client.post("/translate", json={"text": "a", "avoid": ["b"]})))
        assert slow.begun.acquire(timeout=30)
        assert client.get("/healthz").status_code == 200
        assert slow.is_checking, "the other answer did not wait for it"
        slow.gate.set()
        join_all(thread)
    assert answers[0].json()["text"] == "A"


def test_more_than_there_is_room_for_is_answered_429_and_the_rest_in_full(slow):
    model = ServedModel("slow", slow, 1, limits=BatchLimits(room=2, wait_s=0.0))
    answers = {}

    def ask(text):
        answers[text] = client.post("/translate", json={"text": text})

    with client_of(model) as client:
        threads = [start_thread(ask, "a")]
        assert slow.begun.acquire(timeout=30)  # is being answered, and two may wait
        threads += [start_thread(ask, text) for text in "bc"]
        wait_until(lambda: model.queue.waiting == 2, "two texts wait")
        refused = client.post("/translate", json={"text": "d"})
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert refused.json() == {"error": "too much is waiting: 2 of 2 places taken; ask again later"}
        slow.gate.set()
        join_all(*threads)
    assert {text: answer.json()["text"] for text, answer in answers.items()} == {"a": "A", "b": "B", "c": "C"}


def test_texts_are_counted_by_the_queue_not_requests(slow):
    model = ServedModel("slow", slow, 1, limits=BatchLimits(room=3, wait_s=0.0))
    with client_of(model) as client:

        def ask(texts):
            client.post("/translate", json={"text": texts})

        threads = [start_thread(ask, ["a"])]
        assert slow.begun.acquire(timeout=30)
        threads.append(start_thread(ask, ["b", "c"]))
        wait_until(lambda: model.queue.waiting == 2, "two texts wait")
        refused = client.post("/translate", json={"text": ["d", "e"]})
        slow.gate.set()
        join_all(*threads)
    assert (refused.status_code, refused.json()["error"][:37]) == (429, "too much is waiting: 2 of 3 places ta")


@pytest.mark.parametrize(("room", "most_texts"), [(3, 128), (256, 3)])
def test_a_request_that_never_has_room_is_answered_413_with_the_most_there_may_be(slow, room, most_texts):
    slow.gate.set()
    with client_of(ServedModel("slow", slow, 1, limits=BatchLimits(room=room)), most_texts=most_texts) as client:
        refused = client.post("/translate", json={"text": ["a"] * 4})
        assert (refused.status_code, refused.json()) == (413, {"error": "4 texts, at most 3; send fewer at once"})
        assert client.post("/translate", json={"text": ["a"] * 3}).status_code == 200


def test_what_takes_too_long_is_answered_504(slow):
    with client_of(ServedModel("slow", slow, 1), seconds=0.05) as client:
        answer = client.post("/translate", json={"text": "a"})
        slow.gate.set()
    assert (answer.status_code, answer.json()) == (504, {"error": "no answer within 0.05 seconds; ask for less"})


def test_names_of_models():
    assert named_runs(["ende=/runs/one", "/runs/base"]) == {"ende": "/runs/one", "base": "/runs/base"}
    with pytest.raises(UserError, match=r"model name 'a/b': it is a part of addresses, .* give another"):
        named_runs(["a/b=/runs/one"])
    with pytest.raises(UserError, match="two runs have the name 'one'; name them apart"):
        named_runs(["/runs/one", "one=/runs/two"])
