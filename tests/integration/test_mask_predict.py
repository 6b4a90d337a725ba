"""Training, resuming, evaluation, decoding, scoring, serving and export of a mask-predict model.

Slow: nothing quicker proves that every command leaves the search of such a model to it.
"""

import functools
import json

import numpy as np
import pytest
from starlette.testclient import TestClient

import t2t
from t2t.checkpoints.store import CheckpointStore
from t2t.cli import decoder, exporter, trainer
from t2t.cli import eval as eval_command
from t2t.serving.engine import ServingEngine
from t2t.serving.models import ServedModel
from t2t.serving.routes import build_app
from tests.in_process import call, refuses
from tests.integration.conftest import TINY, write_digits

pytestmark = pytest.mark.slow

LINES = ["1 2 3", "4 4", "9", "7 6 5 4 3 2 1"]
HPARAMS = TINY.replace(",beam_size=2", "").replace("hidden_size=16,filter_size=32", "hidden_size=32,filter_size=64")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with raw files, data and a run."""
    folder = tmp_path_factory.mktemp("cmlm")
    call(trainer, *train_flags(folder), "--eval_steps=1", "--train_steps=40", output_dir=folder / "run")
    return folder


@functools.cache
def train_flags(folder):
    """Flags of the trainer, except for the folder of the run and the number of steps."""
    return [
        *write_digits(folder), "--model=transformer_cmlm", "--hparams_set=transformer_cmlm_multi30k_tiny",
        f"--hparams={HPARAMS},num_hidden_layers=1,effective_batch_size=0", "--generate_data", "--worker_cpu=1",
        "--local_eval_frequency=20", f"--data_dir={folder}/data",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def translator(folder):
    return t2t.load(folder / "run")


@pytest.fixture
def lines(tmp_path):
    (tmp_path / "lines").write_text("\n".join([*LINES, ""]) + "\n")
    return tmp_path / "lines"


def test_a_resumed_run_masks_the_same_words(folder, tmp_path):
    """The weights are bitwise equal: masks depend on the seed, like those of dropout."""
    for steps in (20, 40):
        call(trainer, *train_flags(folder), "--eval_steps=0", output_dir=tmp_path, train_steps=steps)
    found = [CheckpointStore(run / "checkpoints").load_model("latest").weights for run in (folder / "run", tmp_path)]
    assert found[0].keys() == found[1].keys()
    for path, weight in found[0].items():
        np.testing.assert_array_equal(weight, found[1][path], err_msg=path)


def test_training_evaluates_by_real_decodes_and_figures_of_masked_words(folder):
    figures = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
    evaluated = [line for line in figures if "dev/teacher_forced/loss" in line]
    assert [line["step"] for line in evaluated] == [20, 40]
    assert evaluated[1]["dev/teacher_forced/loss"] != evaluated[0]["dev/teacher_forced/loss"]
    run = {"output_dir": folder / "run", "data_dir": folder / "data"}
    first, again = (call(eval_command, **run).out for _ in range(2))
    assert first == again, "nothing is drawn by chance"
    assert "teacher_forced/loss = " in first


def test_the_decoder_answers_as_the_python_api_does(folder, translator, lines, tmp_path):
    files = {"output_dir": folder / "run", "decode_from_file": lines}
    call(decoder, **files, decode_to_file=tmp_path / "out")
    expected = [best.text for (best,) in translator.translate(LINES)]
    assert (tmp_path / "out").read_text().splitlines() == [*expected, ""]
    one = ["--mask_predict_iterations=1", "--length_candidates=2", "--n_best=2", "--output_format=jsonl"]
    call(decoder, *one, **files, decode_to_file=tmp_path / "two")
    found = [json.loads(line) for line in (tmp_path / "two").read_text().splitlines()]
    outputs = translator.translate(LINES, 2, mask_predict_iterations=1, length_candidates=2)
    assert [row["hypotheses"][0]["text"] for row in found[:4]] == [row[0].text for row in outputs]
    for line, row in zip(LINES, outputs, strict=True):
        assert row[0].log_prob == pytest.approx(translator.score([(line, row[0].text)])[0], abs=1e-3)
    run = {"output_dir": folder / "run", "data_dir": folder / "data"}
    assert "BLEU" in call(decoder, "--decode_split=dev", **run).out.upper()


def test_what_it_cannot_do_is_one_line(folder, lines, tmp_path):
    run, made = folder / "run", tmp_path / "made"
    for about, flag in (
        ("beam_size=8 decode_method=mask_predict", "--decode_beam_size=8"),
        ("decode_method=sample transformer_cmlm", "--decode_method=sample"),
        ("eos_penalty=1.0 decode_method=mask_predict", "--eos_penalty=1"),
        ("shortlist=True decode_method=mask_predict", "--shortlist"),
        ("alignments=True decode_method=mask_predict", "--alignments"),
        ("--engine=ctranslate2 TransformerCmlm", "--engine=ctranslate2"),
        ("n_best=6 5", "--n_best=6"),
        ("text2text_files", f"--target_prefix_file={lines}"),
    ):
        refuses(decoder, about, flag, output_dir=run, decode_from_file=lines, decode_to_file=made)
    refuses(decoder, "--output_dir mask-predict", output_dir=f"{run},{run}", decode_from_file=lines)
    for name in ("onnx", "litert", "ctranslate2"):
        refuses(exporter, "TransformerCmlm", output_dir=run, data_dir=folder / "data", export_dir=made, format=name)
    assert list(tmp_path.iterdir()) == [lines]


def test_a_saved_model_answers_as_the_run_does(folder, tmp_path):
    run = {"output_dir": folder / "run", "data_dir": folder / "data"}
    call(exporter, "--format=saved_model", "--n_best=2", **run, export_dir=tmp_path / "export")
    assert json.loads((tmp_path / "export/t2t_export.json").read_text())["n_best"] == 2


def test_the_server_answers(translator):
    expected = [best.text for (best,) in translator.translate(LINES)]
    app = build_app(ServingEngine([ServedModel("cmlm", translator, 1)]), ["127.0.0.1"])
    with TestClient(app, "http://127.0.0.1") as client:
        found = client.post("/translate", json={"text": LINES}).json()["translations"]
        assert [row["outputs"][0]["text"] for row in found] == expected
        refused = client.post("/translate", json={"text": "1", "beam_size": 2})
        assert refused.status_code == 400
        assert "beam_size=2" in refused.text
        streamed = client.post("/translate", json={"text": LINES[0], "stream": True})
        assert json.dumps(expected[0])[1:-1] in streamed.text
