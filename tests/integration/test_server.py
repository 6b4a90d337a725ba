"""`t2t-server` as a process: real requests and signals lose no answer; mistakes are found before loading."""

import json
import signal
import urllib.request

import pytest

import t2t
from benchmarks.harness.load import Server, ask_for
from t2t.cli import insight, server
from t2t.serving.insight import curves as plotting
from tests.integration.conftest import PATIENT
from tests.waiting import join_all, start_thread, wait_until

TEXTS = ["1 2 3", "4 4", "9", "7 6 5 4 3 2 1"]


@pytest.fixture(scope="module")
def expected(tiny_run):
    translator = t2t.load(str(tiny_run.output_dir))
    return {text: found[0].text for text, found in zip(TEXTS, translator.translate(TEXTS), strict=True)}


@pytest.fixture(scope="module")
def served(tiny_run):
    run = tiny_run.output_dir
    flags = [f"--output_dir=tiny={run}", f"--output_dir={run}", f"--output_dir=early={run}/checkpoints/step-00000020"]
    flags.append(f"--output_dir=both={run},{run}")
    with Server("t2t-server", PATIENT, *flags) as one:
        yield one


def post(port, path, data):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(data).encode())
    with urllib.request.urlopen(request, timeout=1200) as answer:
        return json.load(answer)


def page(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=1200) as answer:
        return answer.read().decode()


@pytest.mark.slow
def test_both_ways_of_asking_give_what_the_decoder_does(served, expected):
    rows = post(served.port, "/v1/models/tiny:predict", {"instances": TEXTS})["predictions"]
    assert {text: row["outputs"][0] for text, row in zip(TEXTS, rows, strict=True)} == expected
    for model in ("tiny", "run", "both"):
        found = post(served.port, "/translate", {"text": TEXTS, "model": model})["translations"]
        assert [one["outputs"][0]["text"] for one in found] == list(expected.values())


@pytest.mark.slow
def test_a_checkpoint_is_served_beside_its_run(served, tiny_run):
    early = t2t.load(str(tiny_run.output_dir), checkpoint="20").translate(["1 2 3"])[0][0].text
    assert post(served.port, "/translate", {"text": "1 2 3", "model": "early"})["text"] == early
    assert '"version":"20"' in page(served.port, "/v1/models/early")


@pytest.mark.slow
def test_many_clients_lose_nothing_and_get_their_own_answers(served, expected):
    load = ask_for(served.port, TEXTS, clients=8, seconds=2.0)
    assert load.lost == 0
    assert set(load.statuses) == {200}
    assert {text: set(found) for text, found in load.texts.items()} == {text: {out} for text, out in expected.items()}


@pytest.mark.slow
def test_several_devices_answer_as_one(tiny_run, expected):
    with Server(
        "t2t-server", PATIENT, f"--output_dir=tiny={tiny_run.output_dir}", "--worker_cpu=2", "--batch_texts=1"
    ) as two:
        found = post(two.port, "/translate", {"text": TEXTS})["translations"]
    assert [one["outputs"][0]["text"] for one in found] == list(expected.values())


@pytest.mark.slow
def test_a_signal_lets_requests_end_and_the_exit_is_clean(tiny_run, expected):
    with Server("t2t-server", PATIENT, f"--output_dir=tiny={tiny_run.output_dir}", "--batch_wait_ms=6000") as one:
        found = []

        def ask():
            found.append(post(one.port, "/translate", {"text": "1 2 3"})["text"])

        asked = [start_thread(ask) for _ in range(3)]
        wait_until(lambda: 't2t_waiting_texts{model="tiny"} 3.0' in page(one.port, "/metrics"), "three texts wait")
        one.process.send_signal(signal.SIGTERM)
        join_all(*asked)
        assert found == [expected["1 2 3"]] * 3
        assert one.process.wait(60) == 0


def test_without_a_run_there_is_nothing_to_serve(tmp_path, capsys):
    for main, flags, said in (
        (server.main, [], "--output_dir: not given; name the folder of a run"),
        (insight.main, [], "no run is named; name runs, or folders with runs below them"),
        (insight.main, [f"{tmp_path}/none"], f"{tmp_path}/none: there is no such folder"),
        (insight.main, [str(tmp_path)], f"{tmp_path}: there is no run below this folder"),
    ):
        assert main(["t2t", "--port=0", *flags]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("main", [server.main, insight.main])
@pytest.mark.parametrize(
    ("flags", "status", "message"),
    [
        (["--output_dir=a=/nowhere"], 2, "/nowhere"),
        (["--output_dir={run}", "--host=192.0.2.1"], 1, "cannot listen at 192.0.2.1:"),
        (["--output_dir=a/b={run}"], 2, "model name 'a/b': it is a part of addresses"),
        (["--output_dir={run}", "--n_best=9"], 2, "n_best=9: beam search of width 2 has from 1 to 2 hypotheses"),
        (["--output_dir=a={run}/checkpoints/step-00000020,{run}"], 2, "is a checkpoint, and an ensemble is of runs"),
        (["--output_dir={run}", "--ensemble_average=probabilities"], 2, "--output_dir names no ensemble, NAME=a,b"),
        (["--output_dir={run},{run}"], 2, "an ensemble needs a name; give --output_dir=NAME="),
        (["--output_dir={run}", "--output_dir={run}"], 2, "two runs have the name 'run'; name them apart"),
    ],
)
def test_mistakes(tiny_run, capsys, main, flags, status, message):
    flags = [flag.format(run=tiny_run.output_dir) for flag in flags]
    assert main(["t2t-server", "--port=0", *flags]) == status
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("t2t-server: error: ")
    assert message in last


def test_curves_are_drawn_without_a_browser(tiny_run, tmp_path, capsys):
    flags = [f"--output_dir=a={tiny_run.output_dir}", f"--output_dir={tiny_run.output_dir}"]
    assert insight.main(["t2t-insight", *flags, f"--plot={tmp_path / 'curves.png'}"]) == 0
    assert "train/loss" in capsys.readouterr().out
    assert (tmp_path / "curves.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_curves_of_a_checkpoint_end_at_its_update(tiny_run, tmp_path, capsys, monkeypatch):
    found = {}
    monkeypatch.setattr(plotting, "plot_curves", lambda runs, path: found.update(runs) or ["train/loss"])
    early = tiny_run.output_dir / "checkpoints/step-00000020"
    flags = [f"--output_dir={tiny_run.output_dir}", f"--output_dir=early={early}"]
    assert insight.main(["t2t-insight", *flags, f"--plot={tmp_path / 'curves.png'}"]) == 0
    ends = {name: max(update for points in run.points.values() for update, _ in points) for name, run in found.items()}
    assert ends == {"run": 40, "early": 20}
    assert found["run"].notes == {"train/loss": "with label smoothing 0.1"}
