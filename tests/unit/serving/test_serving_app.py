"""The server's routes, requested as by clients."""

import asyncio
import base64
import bz2
import gzip
import json
import logging
import lzma
import threading
import zlib
from types import SimpleNamespace

import pytest
from starlette.requests import Request

from t2t.cli.server import named_runs
from t2t.hparams.groups import DecodeHParams
from t2t.inference.translator import Hypothesis, Translator
from t2t.search.settings import search_settings
from t2t.serving.answers import to_json, translations
from t2t.serving.engine import RequestLimits, ServingEngine
from t2t.serving.models import Answer, BatchLimits, ServedModel
from t2t.serving.routes import read_body
from tests.errors import refused
from tests.readme import ROOT, blocks
from tests.unit.serving.conftest import serving
from tests.waiting import LIMIT_S, join_all, start_thread, wait_until

TEXTS = ["a b c", "d", "", "h g f e"]
MODELS = ["letters", "pairs", "other", "alone", "bytes"]


def expected_of(translator, n_best):
    return [
        [(one.text, pytest.approx(one.score, rel=1e-4)) for one in translator.translate([text], n_best)[0]]
        if text.strip() else [("", 0.0)]
        for text in TEXTS
    ]  # fmt: skip


def test_predictions_by_rows_and_by_columns_are_those_of_the_translator(client, translator):
    expected = expected_of(translator, 2)
    b64 = [{"text": {"b64": base64.b64encode(text.encode()).decode()}} for text in TEXTS]
    for instances in (TEXTS, [{"text": text} for text in TEXTS], b64):
        answer = client.post("/v1/models/pairs:predict", json={"instances": instances})
        rows = answer.json()["predictions"]
        assert [list(zip(row["outputs"], row["scores"], strict=True)) for row in rows] == expected
    packed = [{"b64": base64.b64encode(text.encode()).decode()} for text in TEXTS]
    for inputs in (TEXTS, {"text": TEXTS}, packed, {"text": packed}):
        asked = {"inputs": inputs, "signature_name": "" if inputs is packed else "serving_default"}
        found = client.post("/v1/models/pairs/versions/40:predict", json=asked).json()["outputs"]
        columns = zip(found["outputs"], found["scores"], strict=True)
        assert [list(zip(*row, strict=True)) for row in columns] == expected


def test_a_plain_request_of_one_text_or_several(client, translator):
    (best,) = translator.translate(["a b c"])[0]
    one = client.post("/translate", json={"text": "a b c", "n_best": 1}).json()
    output = {"text": best.text, "score": pytest.approx(best.score), "log_prob": pytest.approx(best.log_prob)}
    output |= {"finish_reason": "length"} if best.cut else {}
    assert one == {"model": "letters", "text": best.text, "translations": [{"outputs": [output], "cut": False}]}
    many = client.post("/translate", json={"text": TEXTS, "n_best": 2}).json()
    found = [[(o["text"], o["score"]) for o in row["outputs"]] for row in many["translations"]]
    assert found == expected_of(translator, 2)
    assert "text" not in many
    nulls = client.post("/translate", json={"text": TEXTS, "n_best": 2, "alpha": None, "beam_size": None})
    assert nulls.json() == many, "null is what is left out"


def test_the_response_on_the_page_has_this_form():
    (shown,) = [one.text for one in blocks(ROOT / "docs/serving.md") if one.language == "json"]
    best = Hypothesis("einundzwanzig Katzen", (), -0.3418, -0.5180)
    assert json.loads(shown) == to_json(translations("ende", [Answer([best], cut=False)], is_one=True))


def test_lines_of_plain_text_give_lines(client, translator):
    expected = [translator.translate([text])[0][0].text if text else "" for text in TEXTS]
    plain = {"content-type": "text/plain; charset=utf-8"}
    answer = client.post("/translate", content="\n".join(TEXTS) + "\n", headers=plain)
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.text == "\n".join(expected) + "\n"
    assert client.post("/translate", content="a b c", headers=plain).text == expected[0]
    assert client.post("/translate", content=b"a \xff", headers=plain).status_code == 200
    assert client.post("/translate", content="a b c\r\nd\r\n", headers=plain).text == "\n".join(expected[:2]) + "\n"


UNPACKED = b"\xef\xbb\xbfa b c\nd\n"


@pytest.mark.parametrize(
    ("body", "encoding", "status", "about"),
    [
        (UNPACKED, "", 200, ""), (gzip.compress(UNPACKED), "", 200, ""), (gzip.compress(UNPACKED), "GZIP", 200, ""),
        (gzip.compress(UNPACKED)[:-9], "", 400, "gzip"), (gzip.compress(b" " * 4001), "", 400, "4,000"),
        (UNPACKED.decode("utf-8-sig").encode("utf-16"), "", 400, "UTF-16"),
        (bz2.compress(UNPACKED), "", 400, "bzip2"), (lzma.compress(UNPACKED), "", 400, "xz"),
        (zlib.compress(UNPACKED), "deflate", 415, "'deflate'"),
    ],
    ids=lambda value: value if isinstance(value, str | int) else "",
)  # fmt: skip
def test_lines_are_read_as_those_of_files(client, translator, body, encoding, status, about):
    headers = {"content-type": "text/plain", "content-encoding": encoding}
    answer = client.post("/translate", content=body, headers=headers)
    assert answer.status_code == status, answer.text
    if about:
        assert about in answer.json()["error"]
    else:
        assert answer.text == "".join(f"{best.text}\n" for (best,) in translator.translate(["a b c", "d"]))


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
        assert answer.json()["error"].startswith("charset 'iso-8859-1': ")


@pytest.mark.parametrize(
    ("query", "body", "model"),
    [({"model": "other"}, {}, "other"), ({"model": "other"}, {"model": "other"}, "other"), ({}, {}, "letters")],
)
def test_a_model_is_named_in_the_query_or_the_body(client, query, body, model):
    answer = client.post("/translate", params=query, json={"text": "a b", **body}).json()
    assert answer["model"] == model
    other = client.post("/translate", json={"text": "a b", "model": "letters" if model == "other" else "other"})
    assert answer["text"] != other.json()["text"]


@pytest.mark.parametrize("text", ["\ud800 a", "a\0b", "\u202e\u0000", "😀 <b>", "a\nb"])
def test_any_text_is_answered(client, text):
    answer = client.post("/translate", content=json.dumps({"text": text}))
    assert answer.status_code == 200
    assert len(answer.json()["translations"]) == 1


def test_what_is_served_is_told_as_both_interfaces_expect(client):
    named = client.get("/v1/models").json()
    assert named["object"] == "list"
    assert named["models"] == [one["id"] for one in named["data"]] == MODELS
    state = {"version": "40", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    version = client.get("/v1/models/letters/versions/40").json()
    assert version == {"model_version_status": [state]}
    assert client.get("/v1/models/letters").json() == version | named["data"][0]
    described = client.get("/v1/models/letters/metadata").json()
    assert described["model_spec"] == {"name": "letters", "signature_name": "", "version": "40"}
    (signature,) = described["metadata"]["signature_def"]["signature_def"].values()
    row = client.post("/v1/models/letters:predict", json={"instances": ["a"]}).json()["predictions"][0]
    assert (set(signature["inputs"]), set(signature["outputs"])) == ({"text"}, set(row) - {"finish_reasons"})
    alone = client.get("/v1/models/alone").json()
    assert (alone["id"], alone["object"], alone["model_version_status"][0]["version"]) == ("alone", "model", "3")
    assert client.get("/healthz").json() == {"status": "ok", "models": MODELS}


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
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0].startswith(r"refused: 404 /translate: model 'no\x1b[2Jne' ")
    assert lines[1].startswith("refused: 400 /translate: ")
    assert len(lines) == 2
    assert not any(character < " " for line in lines for character in line)


class Broken(ServedModel):
    """A model with a bug."""

    def answer(self, questions):
        raise RuntimeError("a bug\nin lines")


def test_a_bug_is_answered_500_with_its_traceback_in_the_log(translator, caplog):
    with serving(Broken("broken", translator, 1)) as (client, _):
        answer = client.post("/translate", json={"text": "a"})
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/json")
    assert "RuntimeError" in answer.json()["error"]
    assert "a bug" not in answer.text
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.getMessage().startswith("/translate: ")
    assert record.exc_info[0] is RuntimeError


def received_of(limits, parts, headers=()):
    """Reads the body of a request that arrives in parts; returns the body or the error, and the unread parts."""
    left = iter(parts)

    async def receive():
        part = next(left)
        if part is None:
            await asyncio.sleep(60)
        return {"type": "http.request", "body": part, "more_body": True}

    service = ServingEngine([], RequestLimits(**limits))
    scope = {"type": "http", "method": "POST", "headers": [(b"content-length", str(n).encode()) for n in headers]}
    try:
        found = asyncio.run(read_body(service, Request(scope, receive)))
    except Exception as error:
        found = error
    service.close()
    return found, list(left)


@pytest.mark.parametrize(("declared", "unread"), [((), 7), ((7,), 7), ((1000,), 10)])
def test_no_more_of_a_large_body_is_read_than_the_limit(declared, unread):
    error, left = received_of({"most_bytes": 8}, [b"abc"] * 10, declared)
    assert (error.status_code, len(left)) == (413, unread)
    assert " 8 bytes" in error.detail


def test_a_slow_body_is_answered_408_and_its_connection_closed():
    error, left = received_of({"body_seconds": 0.05}, [b"abc", None, b"def"])
    assert (error.status_code, left) == (408, [b"def"])
    assert "0.05" in error.detail
    assert error.headers == {"Connection": "close"}


def test_a_closed_service_does_not_wait_until_a_job_ends(caplog):
    gate, begun, service = threading.Event(), threading.Event(), ServingEngine([])

    def job():
        begun.set()
        return gate.wait(LIMIT_S)

    found = []
    asking = start_thread(lambda: found.append(asyncio.run(service.run(job))))
    assert begun.wait(LIMIT_S)
    service.close(0.05)
    assert not found, "it still runs"
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(said) == 1
    assert "0.05 s" in said[0]
    gate.set()
    join_all(asking)
    service.close()
    assert found == [True]


class Slow:
    """A translator that blocks until its gate is opened."""

    has_inputs, reads_text, longest_input, is_blank, is_built = True, True, 100, Translator.is_blank, True
    most_ids = "the 3 ids that max_input_length allows"
    facts, hparams, model_engine = SimpleNamespace(autoregressive=True), DecodeHParams(), SimpleNamespace(devices=[""])

    def __init__(self):
        self.gate, self.begun = threading.Event(), threading.Semaphore(0)
        self.is_checking = False

    def settings(self, n_best, **changes):
        return search_settings(self.hparams, n_best, 0, changes)

    def encode(self, texts):
        return [list(text) for text in texts]

    def check_terms(self, terms, n_best, **changes):
        self.is_checking = True
        self.begun.release()
        assert self.gate.wait(LIMIT_S)
        self.is_checking = False

    def translate_ids(self, ids, n_best, seeds, sources, constraints=None, beam_size=None):
        self.begun.release()
        assert self.gate.wait(LIMIT_S)
        return [[Hypothesis(text.upper(), (), 0.0, 0.0)] for text in sources]


@pytest.fixture
def slow():
    translator = Slow()
    yield translator
    translator.gate.set()


PLAIN, CHAT, COMPLETIONS, PREDICT = "/translate?", "/v1/chat/completions", "/v1/completions", "/v1/models/slow:predict"
LONG = {
    PLAIN: {"content": "ab\nabc", "headers": {"content-type": "text/plain"}},
    PREDICT: {"json": {"instances": ["ab", "abc"]}},
    CHAT: {"json": {"messages": [{"role": "user", "content": "abc"}]}},
    COMPLETIONS: {"json": {"prompt": ["ab", "abc"]}},
    "/translate": {"json": {"text": ["ab", "abc"]}},
}
"""Requests whose last text has an id more than the model reads."""


def what_was_cut(path, answer):
    """Returns what an answer says of the inputs that were cut, the last one or by their numbers."""
    body = None if path == PLAIN else answer.json()
    return {
        PLAIN: lambda: answer.headers.get("t2t-cut-inputs") == "2",
        PREDICT: lambda: [row.get("cut") for row in body["predictions"]] == [False, True],
        CHAT: lambda: body["choices"][0].get("cut"),
        COMPLETIONS: lambda: [one.get("cut") for one in body["choices"]] == [None, True],
        "/translate": lambda: [one["cut"] for one in body["translations"]] == [False, True],
    }[path]()


@pytest.mark.parametrize("path", LONG)
def test_a_text_that_is_too_long_is_refused_unless_it_may_be_truncated_which_the_answer_says(slow, path):
    slow.longest_input = 2
    slow.gate.set()
    asked, is_openai = LONG[path], path in (CHAT, COMPLETIONS)
    answers = {}
    for name, truncates, option in (
        ("default", False, None), ("server", True, None), ("request", False, True), ("not", True, False)
    ):  # fmt: skip
        with serving(ServedModel("slow", slow, 1), truncate=truncates) as (client, service):
            more, query = {}, ""
            if option is not None and path == PLAIN:
                query = f"truncate={str(option).lower()}"
            elif option is not None:
                more = {"json": {**asked["json"], "truncate": option}}
            answers[name] = client.post(path + query, **{**asked, **more})
            counts = service.measures.page().decode()
        is_cut = answers[name].status_code == 200
        assert f't2t_cut_texts_total{{model="slow"}} {float(is_cut)}' in counts or not is_cut
    assert what_was_cut(path, answers["server"])
    assert what_was_cut(path, answers["request"])
    for name in ("not",) if path == "/translate" else ("not", "default"):  # where the answer has `cut`, it may be true
        assert answers[name].status_code == 400
        error = answers[name].json()["error"]
        assert not is_openai or (error["code"], error["type"]) == ("context_length_exceeded", "invalid_request_error")
        assert {"4", "truncate"} <= set((error["message"] if is_openai else error).split())


def test_an_output_that_is_cut_says_so_in_every_form(slow):
    slow.gate.set()
    slow.translate_ids = lambda ids, n_best, sources, **_: [
        [Hypothesis(text, (5,), 0.0, 0.0, cut=text == "b")] for text in sources
    ]
    with serving(ServedModel("slow", slow, 1)) as (client, service):
        plain = client.post("/translate", json={"text": ["a", "b"]}).json()["translations"]
        lines = client.post("/translate", content="a\nb\n", headers={"content-type": "text/plain"})
        rows = client.post(PREDICT, json={"instances": ["a", "b"]}).json()["predictions"]
        columns = client.post(PREDICT, json={"inputs": ["a", "b"]}).json()["outputs"]
        choices = client.post(COMPLETIONS, json={"prompt": ["a", "b"]}).json()["choices"]
        assert 't2t_cut_outputs_total{model="slow"} 5.0' in service.measures.page().decode()
    assert [one["outputs"][0].get("finish_reason") for one in plain] == [None, "length"]
    assert lines.headers["t2t-cut-outputs"] == "2"
    assert [row["finish_reasons"] for row in rows] == columns["finish_reasons"] == [["stop"], ["length"]]
    assert [one["finish_reason"] for one in choices] == ["stop", "length"]


def ask(client, answers, text, **more):
    """Asks in another thread."""
    return start_thread(lambda: answers.append(client.post("/translate", json={"text": text, **more}).json()))


def test_while_constraints_are_checked_others_are_answered(slow):
    answers = []
    with serving(ServedModel("slow", slow, 1)) as (client, _):
        thread = ask(client, answers, "a", avoid=["b"])
        assert slow.begun.acquire(timeout=LIMIT_S)
        assert client.get("/healthz").status_code == 200
        assert slow.is_checking, "the other answer did not wait for it"
        slow.gate.set()
        join_all(thread)
    assert answers[0]["text"] == "A"


def test_while_a_search_is_compiled_requests_of_other_searches_are_answered(slow):
    """It is compiled for the first text; the gate holds that search only."""
    answers, compiled, others = [], slow.translate_ids, []
    with serving(ServedModel("slow", slow, 1)) as (client, _):
        slow.gate.set()
        assert client.post("/translate", json={"text": "a"}).status_code == 200
        slow.gate.clear()
        slow.translate_ids = lambda *more, **how: (
            compiled(*more, **how) if how.get("beam_size") == 2 else [[Hypothesis("other", (), 0.0, 0.0)]]
        )
        assert slow.begun.acquire(timeout=LIMIT_S)
        thread = ask(client, answers, "b", beam_size=2)
        assert slow.begun.acquire(timeout=LIMIT_S)
        for alpha in (None, 2.0):
            others.append(client.post("/translate", json={"text": "c", "alpha": alpha}).json()["text"])
        assert not answers
        slow.gate.set()
        join_all(thread)
    assert (others, answers[0]["text"]) == (["other"] * 2, "B")


@pytest.mark.parametrize(("room", "waiting", "last"), [(2, ["b", "c"], "d"), (3, [["b", "c"]], ["d", "e"])])
def test_more_texts_than_there_is_room_for_are_answered_429_and_the_rest_in_full(slow, room, waiting, last):
    model = ServedModel("slow", slow, 1, limits=BatchLimits(room=room, wait_s=0.0))
    answers = []
    with serving(model) as (client, _):
        threads = [ask(client, answers, "a")]
        assert slow.begun.acquire(timeout=LIMIT_S)  # is being answered, and others may wait
        threads += [ask(client, answers, text) for text in waiting]
        wait_until(lambda: model.waiting == 2, "two texts wait")
        full = client.post("/translate", json={"text": last})
        assert (full.status_code, full.headers["retry-after"]) == (429, "1")
        assert f" 2 of {room} " in full.json()["error"]
        slow.gate.set()
        join_all(*threads)
    found = [row["outputs"][0]["text"] for answer in answers for row in answer["translations"]]
    assert sorted(found) == ["A", "B", "C"]


@pytest.mark.parametrize(("room", "most_texts"), [(3, 128), (256, 3)])
def test_a_request_that_never_has_room_is_answered_413_with_the_most_there_may_be(slow, room, most_texts):
    slow.gate.set()
    with serving(ServedModel("slow", slow, 1, limits=BatchLimits(room=room)), most_texts=most_texts) as (client, _):
        answer = client.post("/translate", json={"text": ["a"] * 4})
        assert answer.status_code == 413
        assert {"4", "3;"} <= set(answer.json()["error"].split())
        assert client.post("/translate", json={"text": ["a"] * 3}).status_code == 200


def test_what_is_not_answered_when_the_service_stops_is_answered_503_and_counted(slow):
    answers = {}
    with serving(ServedModel("slow", slow, 1, limits=BatchLimits(most_texts=1))) as (client, service):

        def ask(path, **body):
            answers[path] = client.post(path, json=body)

        threads = [
            start_thread(lambda: ask("/translate", text="a")),
            start_thread(lambda: ask(COMPLETIONS, prompt="b")),
        ]
        assert slow.begun.acquire(timeout=LIMIT_S)
        wait_until(lambda: service.models["slow"].waiting == 1, "the other waits")
        client.portal.call(service.stop)
        join_all(*threads)
        slow.gate.set()
    assert {answer.status_code for answer in answers.values()} == {503}
    assert isinstance(answers["/translate"].json()["error"], str)
    assert answers[COMPLETIONS].json()["error"]["type"] == "server_error"
    assert (service.unanswered, service.is_closed) == (2, True)


def test_what_takes_too_long_is_answered_504(slow):
    with serving(ServedModel("slow", slow, 1), seconds=0.05) as (client, _):
        answer = client.post("/translate", json={"text": "a"})
        slow.gate.set()
    assert answer.status_code == 504
    assert "0.05" in answer.json()["error"]


def test_names_of_models():
    assert named_runs(["ende=/runs/one", "/runs/base"]) == {"ende": "/runs/one", "base": "/runs/base"}
    with refused("'a/b':"):
        named_runs(["a/b=/runs/one"])
    with refused("'one';"):
        named_runs(["/runs/one", "one=/runs/two"])
