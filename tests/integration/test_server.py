"""`t2t-server` as a process: real requests and signals lose no answer; mistakes are found before loading."""

import json
import shutil
import signal
import urllib.request

import pytest

import t2t
from benchmarks.harness.load import Server, ask_for
from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.cli import insight, server
from t2t.files.paths import local_path
from t2t.studio.curves import curves_of, plot_curves
from tests.in_process import call, refuses
from tests.integration.conftest import PATIENT
from tests.waiting import LIMIT_S, join_all, start_thread, wait_until

TEXTS = ["1 2 3", "4 4", "9", "7 6 5 4 3 2 1"]


@pytest.fixture(scope="module")
def expected(tiny_run):
    translator = t2t.load(str(tiny_run.output_dir))
    return {text: found[0].text for text, found in zip(TEXTS, translator.translate(TEXTS), strict=True)}


@pytest.fixture(scope="module")
def served(tiny_run):
    run = tiny_run.output_dir
    flags = [f"--output_dir=tiny={run}", f"--output_dir={run}", f"--output_dir=early={run}/checkpoints/step-00000020"]
    with Server("t2t-server", PATIENT, *flags, f"--output_dir=both={run},{run}", "--worker_cpu=2") as one:
        yield one


def post(port, path, data):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(data).encode())
    with urllib.request.urlopen(request, timeout=1200) as answer:
        return json.load(answer)


def page(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=1200) as answer:
        return answer.read().decode()


@pytest.mark.slow  # that a process on two devices answers as the decoder, with each of its models
def test_all_ways_of_asking_give_what_the_decoder_does(served, expected, tiny_run):
    rows = post(served.port, "/v1/models/tiny:predict", {"instances": TEXTS})["predictions"]
    assert {text: row["outputs"][0] for text, row in zip(TEXTS, rows, strict=True)} == expected
    for model in ("tiny", "run", "both"):
        found = post(served.port, "/translate", {"text": TEXTS, "model": model})["translations"]
        assert [one["outputs"][0]["text"] for one in found] == list(expected.values())
    early = t2t.load(str(tiny_run.output_dir), checkpoint="20").translate(["1 2 3"])[0][0].text
    assert post(served.port, "/translate", {"text": "1 2 3", "model": "early"})["text"] == early
    assert '"version":"20"' in page(served.port, "/v1/models/early")


@pytest.mark.slow  # that no answer is lost or given to another client
def test_many_clients_lose_nothing_and_get_their_own_answers(served, expected):
    load = ask_for(served.port, TEXTS, clients=8, seconds=2.0)
    assert load.lost == 0
    assert set(load.statuses) == {200}
    assert {text: set(found) for text, found in load.texts.items()} == {text: {out} for text, out in expected.items()}


@pytest.mark.slow  # that a signal to a process ends it after its requests
def test_a_signal_lets_requests_end_and_the_exit_is_clean(tiny_run, expected):
    flags = [f"--output_dir=tiny={tiny_run.output_dir}", "--batch_wait_ms=60000", "--grace_seconds=1200"]
    with Server("t2t-server", PATIENT, *flags) as one:
        found = []

        def ask():
            found.append(post(one.port, "/translate", {"text": "1 2 3"})["text"])

        asked = [start_thread(ask) for _ in range(3)]
        wait_until(lambda: 't2t_waiting_texts{model="tiny"} 3.0' in page(one.port, "/metrics"), "three texts wait")
        one.process.send_signal(signal.SIGTERM)
        join_all(*asked)
        assert found == [expected["1 2 3"]] * 3
        assert one.process.wait(LIMIT_S) == 0


def test_mistakes_that_show_when_a_service_starts():
    refuses(server, "--output_dir", port=0)
    run = {"port": 0, "output_dir": "zoo:ende_numbers"}
    refuses(server, "192.0.2.1:", "--host=192.0.2.1", **run, status=1)
    for origin in ("page.example", "https://page.example/"):
        refuses(server, f"--allow_origin={origin}: https://page.example:8443", allow_origin=origin, **run)
    refuses(insight, "n_best=9 2", "--n_best=9", **run)


def test_curves_are_drawn_without_a_browser_those_of_a_checkpoint_to_its_update(tmp_path):
    run = RunDir.open(shutil.copytree(local_path("zoo:ende_numbers"), tmp_path / "run"))
    picture, expected = tmp_path / "curves.png", tmp_path / "expected.png"
    early = CheckpointStore(run.checkpoints_folder).save(600, model={})
    assert "train/loss" in call(insight, f"--output_dir={run.path}", f"--output_dir=early={early}", plot=picture).out
    plot_curves({"run": curves_of(run), "early": curves_of(run, 600)}, expected)
    assert picture.read_bytes() == expected.read_bytes()
