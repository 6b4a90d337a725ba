"""What the page is given, asked as its script asks."""

import json
import re
import threading
import time

import numpy as np
import pytest
from starlette.testclient import TestClient

from t2t.inference.beam_trace import alternatives
from t2t.serving.app import build_app
from t2t.serving.insight import routes
from t2t.serving.insight.figures import figure_of
from t2t.serving.insight.page import APP_FILES
from t2t.serving.insight.routes import insight_addresses
from t2t.serving.models import ServedModel
from t2t.serving.service import RequestLimits, Service
from tests.unit.inference.test_inference_translator import WORDS, Letters, build
from tests.unit.serving.insight.test_serving_insight_curves import LINES, Run
from tests.waiting import join_all, start_thread, wait_until


@pytest.fixture(scope="module")
def translator():
    return build(Letters)


@pytest.fixture(scope="module")
def client(translator):
    service = Service([ServedModel("letters", translator, 40), ServedModel("early", translator, 10)])
    app = build_app(
        service, ["127.0.0.1"], insight_addresses({"letters": (Run(LINES, 0.1), None), "early": (Run(LINES), 10)})
    )
    with TestClient(app, base_url="http://127.0.0.1") as client:
        yield client


def test_the_page_reads_its_own_files_and_nothing_else(client):
    page = client.get("/")
    assert "default-src 'none'; script-src 'self'" in page.headers["content-security-policy"]
    addresses = re.findall(r'(?:src|href)="([^"]*)"', page.text)
    assert {a for a in addresses if a != "data:,"} == {f"/insight/files/{name}" for name in APP_FILES}
    for address in addresses:
        if address != "data:,":
            assert client.get(address).status_code == 200
    assert json.loads(re.search(r'id="models">(.*?)</script>', page.text)[1]) == ["letters", "early"]
    assert client.get("/insight/files/page.py").status_code == 404
    assert client.get("/insight/files/..%2Fpage.py").status_code == 404


def test_a_figure_is_the_translators(client, translator):
    found = client.post("/insight/figure", json={"source": "a b", "target": "c"}).json()
    assert found == json.loads(json.dumps(figure_of(translator, "letters", "a b", "c")))
    best = client.post("/insight/figure", json={"source": "a b", "model": "letters"}).json()
    assert best["target"] == translator.translate(["a b"])[0][0].text


def test_a_beam_names_pieces_and_parents(client, translator):
    beam = client.post("/insight/beam", json={"source": "a b", "beam_size": 3}).json()
    (best,) = translator.translate(["a b"])[0]
    (first,) = [node for node in beam["nodes"] if node.get("rank") == 1]
    assert first["text"] == best.text
    place, ids = beam["nodes"].index(first), []
    while place >= 0:
        ids.insert(0, beam["nodes"][place]["id"])
        place = beam["nodes"][place]["parent"]
    assert tuple(ids) == best.ids
    assert all(node["piece"] == WORDS.piece(node["id"]) for node in beam["nodes"])


def test_alternatives_and_what_follows_when_one_is_forced(client, translator):
    start = WORDS.encode("h")
    asked = {"source": "a b", "prefix": start}
    found = client.post("/insight/alternatives", json={**asked, "count": 4}).json()
    assert found["prefix"] == [{"id": start[0], "piece": "h"}]
    expected = alternatives(translator, "a b", start, 4)
    assert [one["id"] for one in found["next"]] == [token for token, _ in expected]
    np.testing.assert_allclose([one["log_prob"] for one in found["next"]], [value for _, value in expected])
    forced = client.post("/insight/beam", json=asked).json()
    assert {node["id"] for node in forced["nodes"] if node["parent"] < 0} == set(start)


def test_the_figure_of_a_forced_text_is_that_of_its_ids_and_its_score_that_of_the_translator(client, translator):
    best = {"ids": [0]}
    for start in range(3, WORDS.vocab_size):
        if best["ids"][-1] != 1:  # where it came to its end by itself
            forced = client.post("/insight/beam", json={"source": "a b", "prefix": [start]}).json()
            (best,) = [node for node in forced["nodes"] if node.get("rank") == 1]
    figure = client.post("/insight/figure", json={"source": "a b", "ids": best["ids"]}).json()
    assert figure["target"] == best["text"] == WORDS.decode(best["ids"])
    assert figure["maps"][1]["queries"] == [WORDS.piece(token) for token in best["ids"]]
    assert figure["maps"] == json.loads(json.dumps(figure_of(translator, "", "a b", best["ids"])["maps"]))
    (score,) = translator.score_ids(translator.encode(["a b"]), [best["ids"][:-1]])
    assert best["ids"][-1] == 1
    assert best["log_prob"] == pytest.approx(score, rel=1e-4)
    assert figure["log_prob"] == pytest.approx(score, rel=1e-4)


def test_curves_are_the_runs(client):
    found = client.get("/insight/curves?model=letters").json()
    assert found["points"]["train/loss"] == [[10, 2.5], [20, 2.0]]
    assert found["notes"] == {"train/loss": "with label smoothing 0.1"}
    early = client.get("/insight/curves?model=early").json()
    assert early == {"points": {"train/loss": [[10, 2.5]]}, "notes": {}}


@pytest.mark.parametrize(
    ("path", "asked", "status", "message"),
    [
        ("figure", {"source": "a", "model": "x"}, 404, "model 'x' is not served"),
        ("figure", {}, 400, "source: a list of one or more texts is wanted"),
        ("beam", {"source": "a", "prefix": ["x"]}, 400, "prefix: a list of ids is wanted"),
        ("figure", {"source": "a", "ids": 3}, 400, "ids: a list of ids is wanted, of a beam or of alternatives"),
        (
            "figure",
            {"source": "a", "ids": []},
            400,
            "ids: those of an output are wanted, from 1 to 10, 1 only at its end",
        ),
        ("figure", {"source": "a", "ids": [1, 3]}, 400, "ids: those of an output are wanted"),
        ("figure", {"source": "a", "ids": [3, 0]}, 400, "ids: those of an output are wanted"),
        ("figure", {"source": "a", "ids": [11]}, 400, "ids: those of an output are wanted"),
        ("beam", {"source": "a", "beam_size": 99}, 400, "beam_size 99: a whole number from 1 to 32 is wanted"),
        ("beam", {"source": "a", "beam_size": 1}, 400, "the tree of a beam: this search holds one hypothesis"),
        ("alternatives", {"source": "a", "prefix": [1]}, 400, "a beginning with id 1: ids from 2"),
    ],
)
def test_mistakes_are_said(client, path, asked, status, message):
    answer = client.post(f"/insight/{path}", json=asked)
    assert answer.status_code == status
    assert message in answer.json()["error"]


class Jobs:
    """Replaces what makes a figure: says how many do so at a time, and waits until it is let go."""

    def __init__(self):
        self.gate, self.begun, self.now, self.most = threading.Event(), threading.Semaphore(0), 0, 0

    def __call__(self, translator, data):
        self.now += 1
        self.most = max(self.most, self.now)
        self.begun.release()
        assert self.gate.wait(30)
        time.sleep(0.02)  # so that another one would be seen
        self.now -= 1
        return {"of": data["model"]}


@pytest.fixture
def jobs(monkeypatch):
    jobs = Jobs()
    monkeypatch.setattr(routes, "_figure", jobs)
    yield jobs
    jobs.gate.set()


def client_with(translator, **limits):
    service = Service([ServedModel(name, translator, 1) for name in "ab"], RequestLimits(**limits))
    app = build_app(service, ["127.0.0.1"], insight_addresses(dict.fromkeys("ab", (Run(LINES), None))))
    return TestClient(app, base_url="http://127.0.0.1")


def ask_in_threads(client, models):
    return [
        start_thread(lambda model=model: client.post("/insight/figure", json={"source": "a", "model": model}))
        for model in models
    ]


def test_figures_are_made_one_at_a_time_for_all_models(jobs, translator):
    with client_with(translator) as client:
        threads = ask_in_threads(client, "abab")
        assert jobs.begun.acquire(timeout=30)
        assert not jobs.begun.acquire(timeout=0.3)
        jobs.gate.set()
        join_all(*threads)
    assert jobs.most == 1


def test_more_figures_than_there_is_room_for_are_answered_429(jobs, translator):
    with client_with(translator, waiting_jobs=1) as client:
        threads = ask_in_threads(client, "a")
        assert jobs.begun.acquire(timeout=30)
        threads += ask_in_threads(client, "b")
        wait_until(lambda: "t2t_waiting_jobs 1.0" in client.get("/metrics").text, "a figure waits")
        refused = client.post("/insight/alternatives", json={"source": "a"})
        curves = client.get("/insight/curves")
        jobs.gate.set()
        join_all(*threads)
    for answer in (refused, curves):
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
        assert answer.json() == {"error": "too much is waiting: 1 of 1 places taken; ask again later"}


def test_figures_have_the_limits_of_other_requests(jobs, translator):
    with client_with(translator, seconds=0.05, most_bytes=100) as client:
        assert client.post("/insight/figure", json={"source": "a"}).status_code == 504
        jobs.gate.set()
        assert client.post("/insight/figure", json={"source": "a" * 100}).status_code == 413
        foreign = client.post("/insight/figure", json={"source": "a"}, headers={"origin": "http://evil.example"})
        assert foreign.status_code == 403
        assert client.get("/", headers={"host": "evil.example"}).status_code == 400
