"""Newer checkpoints take the place of served ones: on request and by themselves, without a lost or mixed answer."""

import logging
import shutil
import urllib.request

import pytest
from starlette.testclient import TestClient

from benchmarks.harness.load import Server
from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import UserError
from t2t.files.paths import local_path
from t2t.serving.engine import ServingEngine
from t2t.serving.models import CheckpointSource, ServedModel
from t2t.serving.routes import build_app
from tests.letters import letters
from tests.unit.serving.conftest import HOST, PATIENT, serving, various
from tests.unit.serving.test_serving_app import Slow, counted
from tests.waiting import LIMIT_S, join_all, start_thread, wait_until

RELOAD, STEP = "/v1/models/letters:reload", 't2t_model_step{model="letters"}'


class Quiet(ServedModel):
    """A model that compiles no further searches, which would go on after the test."""

    def warm_up_others(self):
        pass


class Run:
    """A run with a checkpoint that a test replaces: its step, and its translator or an error."""

    def __init__(self, translator, step=40):
        self.translator, self.step = translator, step

    def load(self):
        if isinstance(self.translator, Exception):
            raise self.translator
        model = Quiet("letters", self.translator, self.step)
        model.fingerprint = str(id(self.translator))
        return model

    def served(self):
        model = self.load()
        model.source, model.stamp = CheckpointSource(lambda: (self.step, str(self.translator)), self.load), None
        model.stamp = model.source.stamp()
        return model


def asked(client, text="a b c"):
    """Returns the answer of the model, and the step that it says it has in each place."""
    found = client.post("/translate", json={"text": text}).json()["text"]
    version = client.get("/v1/models/letters").json()["model_version_status"][0]["version"]
    return found, {int(version), client.get("/").json()["models"][0]["step"], int(counted(client, STEP))}


def test_a_newer_checkpoint_is_served_on_request_and_a_broken_one_leaves_the_old_in_service(translator, caplog):
    other = various(letters(), seed=4)
    old, new = (one.translate(["a b c"])[0][0].text for one in (translator, other))
    assert old != new
    run = Run(translator)
    with serving(run.served()) as (client, _):
        assert asked(client) == (old, {40})
        assert client.post(RELOAD).json() == {"model": "letters", "step": 40, "reloaded": False}
        for broken, reason in (
            (UserError("weights: half of them are there; wait"), "half"),
            (OSError("no"), "OSError"),
        ):
            run.step, run.translator = 41, broken
            answer = client.post(RELOAD)
            assert answer.status_code == 503
            assert reason in answer.json()["error"]
            assert asked(client) == (old, {40})
        run.translator = translator  # as where the newest is damaged and the one before is read
        run.step = 40
        assert client.post(RELOAD).json()["reloaded"] is False
        run.step, run.translator = 42, other
        assert client.post(RELOAD).json() == {"model": "letters", "step": 42, "reloaded": True}
        assert asked(client) == (new, {42})
    warned = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    said = [one for one in warned if one.startswith("model letters: ")]
    assert len(said) == 2
    assert all("step 40 stays" in one for one in said)


def test_requests_that_are_being_answered_get_the_old_weights(translator):
    slow, answers = Slow(), []
    run = Run(slow)
    slow.warm_up = lambda *_: None
    with serving(run.served()) as (client, engine):
        old = engine.models["letters"]
        thread = start_thread(lambda: answers.append(client.post("/translate", json={"text": "a b"}).json()["text"]))
        assert slow.begun.acquire(timeout=LIMIT_S)
        run.step, run.translator = 41, translator
        assert client.post(RELOAD).json()["reloaded"] is True
        assert asked(client, "a b") == (translator.translate(["a b"])[0][0].text, {41})
        assert not answers
        slow.gate.set()
        join_all(thread)
        wait_until(lambda: not old.is_open, "the queues of the old model are closed")
    assert answers == ["A B"]


def test_a_service_looks_for_newer_checkpoints_by_itself(translator):
    run = Run(translator)
    engine = ServingEngine([run.served()], PATIENT)
    with TestClient(build_app(engine, [HOST], reload_s=0.01), base_url=f"http://{HOST}") as client:
        run.step, run.translator = 41, UserError("weights: there are none yet; wait")
        run.step, run.translator = 42, translator
        wait_until(lambda: asked(client)[1] == {42}, "the newer checkpoint is served")


def test_a_model_without_a_run_has_no_newer_checkpoint(client):
    answer = client.post(RELOAD)
    assert answer.status_code == 400
    assert "'letters'" in answer.json()["error"]
    assert client.post("/v1/models/none:reload").status_code == 404
    assert client.post(RELOAD, headers={"origin": "https://evil.example"}).status_code == 403


@pytest.mark.slow  # that a process finds a checkpoint that another process has written, and no half of one
def test_a_server_serves_what_a_trainer_has_written(tmp_path):
    run = RunDir.open(shutil.copytree(local_path("zoo:ende_numbers"), tmp_path / "run"))
    store = CheckpointStore(run.checkpoints_folder)
    first = store.load()

    def page(path):
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=1200) as answer:
            return answer.read().decode()

    with Server(
        "t2t-server", "--request_seconds=1200", f"--output_dir=ende={run.path}", "--reload_seconds=0.1"
    ) as server:
        before = page("/v1/models/ende")
        assert f'"{first.step}"' in before
        half = store.save(first.step + 10, model=first.model, state=first.state)
        next(half.glob("*.safetensors")).write_bytes(b"half")
        urllib.request.urlopen(f"http://127.0.0.1:{server.port}/v1/models/ende:reload", b"", timeout=1200).close()
        assert page("/v1/models/ende") == before
        store.save(first.step + 20, model=first.model, state=first.state)
        wait_until(lambda: f'"{first.step + 20}"' in page("/v1/models/ende"), "the newer checkpoint is served")
