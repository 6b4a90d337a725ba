"""Answers to the requests of the page's scripts."""

import dataclasses
import itertools
import json
import re
import threading
import time

import numpy as np
import pytest
from starlette.testclient import TestClient

from t2t.inference.search_steps import alternatives
from t2t.models.transformer_encoder import TransformerEncoder
from t2t.serving.engine import ServingEngine
from t2t.serving.models import ServedModel
from t2t.serving.requests import FIELDS
from t2t.serving.routes import build_app
from t2t.studio.figures import figure_of
from t2t.studio.page import APP_FILES, PAGES, PLOTLY
from t2t.studio.routes import insight_addresses
from t2t.studio.run_folders import NamedRun, RunFolders
from t2t.studio.studio import LoadedModel, LoadedModels, Studio
from tests.letters import WORDS, Moods, marked, moods, sharing, translator_of
from tests.many_runs import write_run
from tests.unit.serving.conftest import HOST, PATIENT, events_of
from tests.waiting import LIMIT_S, join_all, start_thread, wait_until


def insight_client(translator, named, names, folders=(), limits=PATIENT, studio_class=Studio, **more):
    """Returns a client of the pages of some runs, and of models of `names` that are served."""
    models = [ServedModel(name, translator, step) for name, step in names.items()]
    served = {model.name: LoadedModel(translator, model.step) for model in models}
    studio = studio_class(RunFolders(named, folders), LoadedModels(None), served, **more)
    app = build_app(ServingEngine(models, limits), [HOST], insight_addresses(studio))
    return TestClient(app, base_url=f"http://{HOST}")


@pytest.fixture(scope="module")
def client(translator, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    named = {"letters": NamedRun(write_run(folder / "letters", 10, label_smoothing=0.1).path)}
    named["early"] = NamedRun(write_run(folder / "early", 10).path, 20)
    write_run(folder / "more" / "found", 3)

    def examples(run, split, count):
        return ["a b"] * count, ["c"] * count, 7

    names = {"letters": 40, "early": 10}
    with insight_client(translator, named, names, [folder / "more"], examples=examples) as client:
        yield client


def asked(client, path, **body):
    """Returns the JSON of a page's request."""
    answer = client.post(f"/insight/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def searched(client, **body):
    """Returns the events of a search."""
    return [json.loads(event) for event in events_of(client.post("/insight/search", json=body))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_reads_its_own_files_and_nothing_else(client, page):
    answer = client.get(page.path)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'" in policy
    assert "unsafe" not in policy
    addresses = re.findall(r'(?:src|href)="([^"]*)"', answer.text)
    names = {address.rpartition("/")[2].partition("?")[0] for address in addresses if "/insight/files/" in address}
    assert set(page.scripts) <= names <= {*APP_FILES, PLOTLY}
    links = {address for address in addresses if "/insight/files/" not in address}
    assert links == {"data:,", "#content", *(one.path for one in PAGES)}
    for address in addresses:
        if address.startswith("/"):
            assert client.get(address).status_code == 200
    facts = json.loads(re.search(r'id="facts">(.*?)</script>', answer.text)[1])
    assert facts == {"page": page.name, "hasData": True, "mostTexts": 128}
    assert f'<a href="{page.path}" aria-current=page>{page.name}</a>' in answer.text


def test_no_other_file_is_a_part_of_the_pages_and_plotly_finds_the_names_of_the_styles_that_it_would_add(client):
    """The content security policy refuses inline styles."""
    for name in ("page.py", "..%2Fpage.py"):
        assert client.get(f"/insight/files/{name}").status_code == 404
    script = client.get(f"/insight/files/{PLOTLY}")
    assert script.headers["content-type"].startswith("text/javascript")
    page = client.get("/curves").text
    added = re.findall(r'createElement\("style"\)[,;]\w+\.id="(\w+)"', script.text)
    assert added
    for name in {*added, "plotly.js-style-global"}:
        assert f'id="{name}"' in page


def test_the_table_has_every_run_whose_hparams_stand_side_by_side_and_whose_curves_are_sent(client):
    rows = {row["run"]: row for row in client.get("/insight/runs").json()["runs"]}
    assert list(rows) == ["letters", "early", "found"]
    assert (rows["found"]["step"], rows["found"]["of"], rows["found"]["state"]) == (30, 30, "finished")
    assert rows["letters"]["changes"] == "label_smoothing=0.1"
    assert not rows["found"]["has_checkpoints"]
    assert rows["found"]["size"] > 0
    assert asked(client, "hparams", runs=["found", "letters"])["runs"] == ["found", "letters"]
    assert asked(client, "hparams")["runs"] == list(rows)
    found = client.post("/insight/curves", json={"runs": ["letters", "early"], "by": "hours"}).json()["runs"]
    assert list(found) == ["letters", "early"]
    assert {name: run["figures"]["train/loss"]["points"] for name, run in found.items()} == {"letters": 10, "early": 2}
    assert found["letters"]["notes"] == {"train/loss": "with label smoothing 0.1"}
    assert list(client.post("/insight/curves", json={}).json()["runs"]) == ["letters", "early", "found"]


def test_a_model_says_its_step_and_translates_lines(client, translator):
    assert client.post("/insight/load", json={"model": "early"}).json() == {
        "step": 10, "checkpoint": None, "language": translator.problem.target_language,
        "search": {name: getattr(translator.hparams, name) for name in FIELDS},
    }  # fmt: skip
    texts = ["a b", "h g"]
    found = client.post("/insight/outputs", json={"texts": texts}).json()["outputs"]
    assert found == [one[0].text for one in translator.translate(texts)]


def test_examples_what_two_systems_made_of_them_and_a_page_to_keep_that_asks_nobody(client):
    examples = client.get("/insight/examples?run=letters&split=dev&count=2").json()
    assert examples == {"sources": ["a b"] * 2, "references": ["c"] * 2, "total": 7}
    asked = {"references": ["a b c d"] * 2, "first": ["a b c x"] * 2, "second": ["a b c d"] * 2, "language": "en"}
    found = client.post("/insight/comparison", json=asked).json()
    assert [score["value"] for score in found["scores"] if score["system"] == "second"] == [
        pytest.approx(100), pytest.approx(100),
    ]  # fmt: skip
    assert found["sentences"][0]["outputs"] == [
        [["a b c", False], ["x", True]], [["a b c", False], ["d", True]],
    ]  # fmt: skip
    text = client.get("/insight/view").text
    assert text.count('id="figures">[]<') == 1  # the element that the script fills
    assert all(part in text for part in ("default-src 'none'", "insight.pieces", "insight.beam"))


def test_figures_and_beams_are_the_translators(client, translator):
    found = asked(client, "figure", source="a b", target="c")
    assert found == json.loads(json.dumps(figure_of(translator, "letters", "a b", "c")))
    (best,) = translator.translate(["a b"])[0]
    assert asked(client, "figure", source="a b", model="letters")["target"] == best.text
    beam = asked(client, "beam", source="a b", search={"beam_size": 3})
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
    body = {"source": "a b", "prefix": start}
    found = asked(client, "alternatives", **body, count=4)
    assert found["prefix"] == [{"id": start[0], "piece": "h"}]
    expected = alternatives(translator, "a b", start, 4)
    assert [one["id"] for one in found["next"]] == [token for token, _ in expected]
    np.testing.assert_allclose([one["log_prob"] for one in found["next"]], [value for _, value in expected])
    forced = asked(client, "beam", **body)
    assert {node["id"] for node in forced["nodes"] if node["parent"] < 0} == set(start)


def test_the_figure_of_a_forced_text_is_that_of_its_ids_and_its_score_that_of_the_translator(client, translator):
    ended = []
    for start in range(3, WORDS.vocab_size):
        if not ended:
            forced = asked(client, "beam", source="a b", prefix=[start], search={"beam_size": 8})
            ended = [node for node in forced["nodes"] if node.get("rank") and node["ids"][-1] == 1]
    best = ended[0]
    figure = client.post("/insight/figure", json={"source": "a b", "ids": best["ids"]}).json()
    assert figure["target"] == best["text"] == WORDS.decode(best["ids"])
    assert figure["maps"][1]["queries"] == [WORDS.piece(token) for token in best["ids"]]
    assert figure["maps"] == json.loads(json.dumps(figure_of(translator, "", "a b", best["ids"])["maps"]))
    (score,) = translator.score_ids(translator.encode(["a b"]), [best["ids"][:-1]])
    assert best["log_prob"] == pytest.approx(score, rel=1e-4)
    assert figure["log_prob"] == pytest.approx(score, rel=1e-4)


@pytest.fixture
def client_of(tmp_path):
    """Returns a function that makes a client of one translator's model."""

    def make(translator, **limits):
        named = {"only": NamedRun(write_run(tmp_path / "only", 2).path)}
        return insight_client(translator, named, {"only": 1}, **limits)

    return make


def test_every_class_that_a_search_finds_has_a_figure(client_of):
    names = Moods.class_labels
    with client_of(translator_of(moods(), TransformerEncoder, num_hidden_layers=1)) as client:
        (last,) = searched(client, source="a b", n_best=len(names))
        outputs = {one["text"]: one["ids"] for one in last["outputs"]}
        assert outputs == {name: [number] for number, name in enumerate(names)}
        for ids in outputs.values():
            figure = asked(client, "figure", source="a b", ids=ids)
            assert {one["name"] for one in figure["classes"]} == set(names)
            assert figure["target"] == last["outputs"][0]["text"]
        for ids in ([-1], [len(names)], [0, 1], []):
            answer = client.post("/insight/figure", json={"source": "a b", "ids": ids})
            assert answer.status_code == 400
            assert answer.json()["error"].startswith(f"ids {ids}: ")


@pytest.mark.parametrize(("begins_with", "given"), [("the text", 2), ("a code", 1), ("nothing", 0)])
def test_ids_after_the_given_ones_are_a_prefix_that_continues_the_output(
    client_of, translator, continuer, begins_with, given
):
    if begins_with == "the text":
        translator = continuer
    elif begins_with == "a code":
        translator = sharing(translator, marked(output_start=tuple(WORDS.encode("h"))))
    with client_of(translator) as client:
        ids = searched(client, source="a b")[-1]["outputs"][0]["ids"]
        figure = asked(client, "figure", source="a b", ids=ids)
        assert (figure["given"], asked(client, "beam", source="a b")["given"]) == (given, given)
        assert len(ids) > given + 2
        for place in range(given, len(ids)):
            found = asked(client, "alternatives", source="a b", prefix=ids[given:place], count=100)["next"]
            (same,) = [one["log_prob"] for one in found if one["id"] == ids[place]]
            assert same == pytest.approx(figure["pieces"][place]["log_prob"], rel=1e-4)
        other = next(one["id"] for one in found if one["id"] not in (1, ids[given + 1]))
        prefix = [ids[given], other]
        forced = searched(client, source="a b", prefix=prefix)[-1]["outputs"][0]["ids"]
        assert forced[: given + 2] == [*ids[:given], *prefix]
        nodes = asked(client, "beam", source="a b", prefix=prefix)["nodes"]
        assert [node["id"] for node in nodes[: given + 2]] == forced[: given + 2]


def test_no_piece_of_an_output_that_does_not_continue_the_text_can_be_continued(client_of, continuer):
    with client_of(continuer) as client:
        for target, given in (("a b c", 2), ("c d", 3)):  # the second with end of sequence
            assert asked(client, "figure", source="a b", target=target)["given"] == given


TERMS = {"constraints": ["h h"], "avoid": ["a"]}


@pytest.mark.parametrize(
    ("body", "how"),
    [
        ({}, {}),
        ({"n_best": 2, "search": {"beam_size": 5, "alpha": 1.5}}, {"n_best": 2, "beam_size": 5, "alpha": 1.5}),
        ({"search": {"decode_method": "sample", "seed": 5}}, {"decode_method": "sample", "seed": 5}),
        ({"prefix": WORDS.encode("h g")}, {"prefixes": ["h g"]}),
        ({"begins": "h g"}, {"prefixes": ["h g"]}),
        ({"terms": {"regex": "d( d)*"}}, {"constraints": [{"regex": "d( d)*"}]}),
        ({"begins": "c", "terms": TERMS}, {"constraints": [TERMS], "prefixes": ["c"]}),
    ],
)
def test_a_search_is_seen_while_it_writes_and_is_the_translators(client, translator, body, how):
    *parts, last = searched(client, source="a b", **body)
    (expected,) = translator.translate(["a b"], **how)
    assert [one["ids"] for one in last["outputs"]] == [list(one.ids) for one in expected]
    assert [one["text"] for one in last["outputs"]] == [one.text for one in expected]
    assert [one["score"] for one in last["outputs"]] == pytest.approx([one.score for one in expected], rel=1e-4)
    assert parts
    for earlier, later in itertools.pairwise([*(part["text"] for part in parts), expected[0].text]):
        assert later.startswith(earlier)
    if body.get("terms") == TERMS:
        nodes = asked(client, "beam", source="a b", **body)["nodes"]
        (best,) = [node for node in nodes if node.get("rank") == 1]
        assert best["ids"] == last["outputs"][0]["ids"]
        assert "h h" in best["text"]
        assert best["text"].startswith("c")


MISTAKES = [
    ("figure", {"source": "a", "model": "x"}, 404, "'x'"),
    ("figure", {"source": "a", "model": "letters", "checkpoint": "/etc"}, 400, "'/etc':"),
    ("figure", {"source": "a", "model": ["x"]}, 404, "\"['x']\""),
    ("curves", {"by": "moons"}, 400, "by 'moons' updates hours"),
    ("curves", {"runs": ["x"]}, 404, "'x'"),
    ("curves", {"runs": "x"}, 400, "runs 'x':"),
    ("curves", {"most": 3}, 400, "most 3 4 100000"),
    ("curves", {"smoothing": 0}, 400, "smoothing 0 1"),
    ("curves", {"start": "x"}, 400, "start 'x'"),
    ("outputs", {"texts": []}, 400, "texts="),
    ("outputs", {"texts": ["a"] * 129}, 400, "129 128;"),
    ("comparison", {"references": ["a"], "first": ["a"]}, 400, "second="),
    ("comparison", {"references": ["a", "b"], "first": ["a"], "second": ["a"]}, 400, "comparison"),
    ("figure", {}, 400, "source[0]="),
    ("beam", {"source": "a", "prefix": ["x"]}, 400, "prefix: ids"),
    *(("figure", {"source": "a", "ids": ids}, 400, "ids:") for ids in (3, [1, 3], [3, 0], [11])),
    ("figure", {"source": "a", "ids": []}, 400, "ids: 1 10,"),
    ("beam", {"source": "a", "search": {"beam_size": 99}}, 400, "beam_size 99 1 32"),
    ("beam", {"source": "a", "search": {"beam_size": 1}}, 400, "beam:"),
    ("search", {"source": "a", "search": {"width": 4}}, 400, "'width': decode_method"),
    ("search", {"source": "a", "search": {"seed": 1}}, 400, "seed=1: decode_method=beam"),
    ("search", {"source": "a", "n_best": 33}, 400, "n_best 33 1 32"),
    ("search", {"source": "a", "terms": {"avoid": ["z"]}}, 400, "'z':"),
    ("search", {"source": "a", "begins": "a " * 1100}, 400, "1100 ids:"),
    ("search", {"source": "a", "model": "x"}, 404, "'x'"),
    ("alternatives", {"source": "a", "prefix": [1]}, 400, "1: 2"),
]


@pytest.mark.parametrize(("path", "body", "status", "about"), MISTAKES)
def test_mistakes_are_said(client, path, body, status, about):
    answer = client.post(f"/insight/{path}", json=body)
    (error,) = answer.json().values()
    assert answer.status_code == status
    assert not [word for word in about.split() if word not in error], error


def test_searches_of_pages_have_the_limit_of_the_server_and_may_be_as_wide_as_the_runs_own(client_of, translator):
    with client_of(translator, widest=2) as client:
        for path in ("beam", "search"):
            answer = client.post(f"/insight/{path}", json={"source": "a", "search": {"beam_size": 4}})
            assert answer.status_code == 400
            assert {"4", "1", "3"} <= set(answer.json()["error"].split())
            wide = {"source": "a", "search": {"beam_size": 3}}
            assert client.post(f"/insight/{path}", json=wide).status_code == 200


class Held(Studio):
    """A studio whose models are there once its gate is open, so that requests wait; counts those at the same time."""

    def __init__(self, *args):
        super().__init__(*args)
        self.gate, self.begun = threading.Event(), threading.Semaphore(0)
        self.now = self.most = self.count = 0

    def model(self, *args):
        self.count += 1
        self.now += 1
        self.most = max(self.most, self.now)
        self.begun.release()
        assert self.gate.wait(LIMIT_S)
        time.sleep(0.02)  # so that a concurrent call would be counted
        self.now -= 1
        return super().model(*args)


@pytest.fixture
def held_with(translator, tmp_path):
    """Returns a function that makes a client of two models with given request limits, and their studio."""
    made = []

    def make(**limits):
        named = {name: NamedRun(write_run(tmp_path / name, 2).path) for name in "ab"}

        def studio(*args):
            made.append(Held(*args))
            return made[-1]

        names, limits = dict.fromkeys("ab", 1), dataclasses.replace(PATIENT, **limits)
        return insight_client(translator, named, names, limits=limits, studio_class=studio), made[-1]

    yield make
    for one in made:
        one.gate.set()


def ask_in_threads(client, models):
    return [
        start_thread(lambda model=model: client.post("/insight/figure", json={"source": "a", "model": model}))
        for model in models
    ]


def test_figures_are_made_one_at_a_time_for_all_models(held_with):
    client, studio = held_with()
    with client:
        threads = ask_in_threads(client, "abab")
        assert studio.begun.acquire(timeout=LIMIT_S)
        assert not studio.begun.acquire(timeout=0.3)
        studio.gate.set()
        join_all(*threads)
    assert studio.most == 1


def test_more_figures_than_there_is_room_for_are_answered_429(held_with):
    client, studio = held_with(waiting_jobs=1)
    with client:
        threads = ask_in_threads(client, "a")
        assert studio.begun.acquire(timeout=LIMIT_S)
        threads += ask_in_threads(client, "b")
        wait_until(lambda: "t2t_waiting_jobs 1.0" in client.get("/metrics").text, "a figure waits")
        full = client.post("/insight/alternatives", json={"source": "a"})
        outputs = client.post("/insight/outputs", json={"texts": ["a"]})
        read = client.post("/insight/curves", json={})  # curves need no model
        studio.gate.set()
        join_all(*threads)
    assert read.status_code == 200
    for answer in (full, outputs):
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
        assert " 1 of 1 " in answer.json()["error"]


def test_figures_have_the_limits_of_other_requests(held_with):
    client, studio = held_with(seconds=0.05, most_bytes=100)
    with client:
        asked = {"source": "a"}
        assert client.post("/insight/figure", json=asked).status_code == 504
        studio.gate.set()
        late = lambda: client.post("/insight/figure", json=asked).status_code  # noqa: E731
        wait_until(lambda: late() == 200, "what was too late is kept for who asks again")
        assert studio.count == 1
        assert client.post("/insight/figure", json={"source": "a" * 100}).status_code == 413
        foreign = client.post("/insight/figure", json={"source": "a"}, headers={"origin": "http://evil.example"})
        assert foreign.status_code == 403
        assert client.get("/", headers={"host": "evil.example"}).status_code == 400


def test_a_service_of_runs_alone_translates_nothing_by_itself(tmp_path):
    write_run(tmp_path / "run", 2)
    with insight_client(None, {}, {}, [tmp_path]) as client:
        assert client.get("/healthz").json() == {"status": "ok", "models": []}
        assert client.post("/translate", json={"text": "a"}).status_code == 404
        loaded = client.post("/insight/load", json={"model": "run"})
        assert loaded.status_code == 400
