"""Served exports behave like their runs, within the settings that were fixed at export."""

import json

import pytest
from starlette.testclient import TestClient

from t2t.cli import insight, server
from t2t.cli.server import named_runs
from t2t.errors import UserError
from t2t.export.exporting import export
from t2t.export.formats import is_export
from t2t.export.job import ExportJob
from t2t.serving.app import build_app
from t2t.serving.exports import ServedExport
from t2t.serving.service import Service
from tests.unit.inference.test_inference_translator import Letters, build

TEXTS = ["a b c", "", "h g f e"]


@pytest.fixture(scope="module")
def translator():
    return build(Letters)


@pytest.fixture(scope="module")
def folder(translator, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "letters/7"
    job = ExportJob(folder=folder, format="saved_model", n_best=2, origin={"step": 40})
    export(translator, job, TEXTS)
    return folder


@pytest.mark.slow
def test_an_export_answers_as_its_run(folder, translator):
    served = ServedExport("letters", folder)
    app = build_app(Service([served]), ["127.0.0.1"])
    with TestClient(app, base_url="http://127.0.0.1") as client:
        asked = client.post("/v1/models/letters/versions/40:predict", json={"instances": TEXTS})
        plain = client.post("/translate", json={"text": "a b c", "n_best": 2}).json()
        refused = client.post("/translate", json={"text": "a", "n_best": 3})
        fixed = client.post("/translate", json={"text": "a", "alpha": 1.0})
        prompt = {"prompt": "a b c", "stream": True}
        events = client.post("/v1/completions", json=prompt).text.split("\n\n")
        limited = client.post("/v1/completions", json={**prompt, "max_tokens": 99, "temperature": 1}).json()
        told = client.get("/").json()["models"]
    for text, row in zip(TEXTS, asked.json()["predictions"], strict=True):
        best = translator.translate([text])[0][0] if text else None
        assert row["outputs"] == [best.text if best else ""]
        assert row["scores"] == [pytest.approx(best.score if best else 0.0, rel=1e-4)]
    expected = [one.text for one in translator.translate(["a b c"], 2)[0]]
    assert [one["text"] for one in plain["translations"][0]["outputs"]] == expected
    assert plain["translations"][0]["outputs"][0]["log_prob"] is plain["translations"][0]["cut"] is None
    assert refused.status_code == 400
    assert "was exported with 2; ask for as many, or export the run with --n_best=3" in refused.json()["error"]
    assert fixed.status_code == 400
    assert fixed.json()["error"].startswith("alpha: model 'letters' is an export, which answers as it was made; leave")
    assert [json.loads(event[6:])["choices"][0]["text"] for event in events[:2]] == [expected[0], ""]
    assert events[2:] == ["data: [DONE]", ""]
    assert limited["error"]["message"].startswith("decode_method, sampling_temperature, max_tokens: model 'letters' is")
    assert told == [{"name": "letters", "step": 40, "n_best": 1, "streams": False, "most_hypotheses": 2}]


def test_the_name_of_a_version_is_that_of_its_model(folder):
    assert is_export(folder)
    assert named_runs([str(folder), f"a={folder}"]) == {"letters": str(folder), "a": str(folder)}


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ({"format": "onnx", "n_best": 1}, "is an export of format onnx; the service takes runs and exports of "),
        ({}, "t2t_export.json is damaged (KeyError); export the run again"),
        (
            {"format": "saved_model", "n_best": 1, "run": {"step": 1}},
            "cannot be loaded (FileNotFoundError); export the run again",
        ),
    ],
)
def test_other_and_damaged_exports_are_refused(tmp_path, report, said):
    (tmp_path / "t2t_export.json").write_text(json.dumps(report))
    with pytest.raises(UserError) as error:
        ServedExport("a", tmp_path)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("main", "flags", "said"),
    [
        (server.main, ["--checkpoint=best"], "--checkpoint: {folder} is an export, which answers as it was made"),
        (server.main, ["--decode_beam_size=8"], "beam_size=8: {folder} is an export, which answers as it was made"),
        (
            insight.main,
            [],
            "--output_dir={folder}: an export has nothing to look into; name the run that it was made of",
        ),
    ],
)
def test_what_an_export_cannot_do_is_said(tmp_path, capsys, main, flags, said):
    (tmp_path / "t2t_export.json").write_text("{}")
    assert main(["t2t-server", "--port=0", f"--output_dir=a={tmp_path}", *flags]) == 2
    assert said.format(folder=tmp_path) in capsys.readouterr().err


@pytest.mark.parametrize(
    "flag",
    [
        "engine=auto", "compute_type=int8", "worker_gpu=1", "worker_cpu=2", "weight_shards=2",
        "ensemble_average=log_probabilities",
    ],
)  # fmt: skip
def test_flags_that_only_runs_read_are_refused_with_exports_alone(tmp_path, capsys, flag):
    (tmp_path / "t2t_export.json").write_text("{}")
    assert server.main(["t2t-server", "--port=0", f"--output_dir=a={tmp_path}", f"--{flag}"]) == 2
    assert capsys.readouterr().err == (
        f"t2t-server: error: --{flag.partition('=')[0]}: only exports are served, which answer as they were made; "
        f"leave it out\n"
    )
