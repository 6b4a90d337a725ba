"""Training, resuming, evaluation, decoding, scoring, serving and export of a mask-predict model."""

import json
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

import t2t
from t2t.checkpoints.store import CheckpointStore
from t2t.cli import decoder, exporter, trainer
from t2t.cli import eval as eval_command
from t2t.serving.app import build_app
from t2t.serving.models import ServedModel
from t2t.serving.service import Service
from tests.integration.conftest import TINY, write_digits

pytestmark = pytest.mark.slow

LINES = ["1 2 3", "4 4", "9", "7 6 5 4 3 2 1"]
HPARAMS = TINY.replace(",beam_size=2", "").replace("hidden_size=16,filter_size=32", "hidden_size=32,filter_size=64")


class Flags(list):
    """Flags for a command that needs the run and its data."""

    def __init__(self, flags, train):
        super().__init__(flags)
        self.train = train
        """Flags of the trainer, except for the output folder and the number of steps."""


@pytest.fixture(scope="module")
def flags(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cmlm")
    flags = [f"--data_dir={folder}/data", f"--output_dir={folder}/run"]
    train = [
        *write_digits(folder), flags[0], "--model=transformer_cmlm", "--hparams_set=transformer_cmlm_multi30k_tiny",
        f"--hparams={HPARAMS},num_hidden_layers=1,effective_batch_size=0", "--generate_data", "--worker_cpu=1",
        "--local_eval_frequency=20",
    ]  # fmt: skip
    assert trainer.main(["t2t-trainer", *train, flags[1], "--eval_steps=1", "--train_steps=40"]) == 0
    return Flags(flags, train)


def folder_of(flags):
    return flags[1].removeprefix("--output_dir=")


def test_a_resumed_run_masks_the_same_words(flags, tmp_path):
    """The weights are bitwise equal: masks depend on the seed, like those of dropout."""
    for steps in (20, 40):
        own = [f"--output_dir={tmp_path}", "--eval_steps=0", f"--train_steps={steps}"]
        assert trainer.main(["t2t-trainer", *flags.train, *own]) == 0
    found = [
        CheckpointStore(f"{folder}/checkpoints").load_model("latest").weights for folder in (folder_of(flags), tmp_path)
    ]
    assert found[0].keys() == found[1].keys()
    for path, weight in found[0].items():
        np.testing.assert_array_equal(weight, found[1][path], err_msg=path)


def test_training_evaluates_by_real_decodes_and_figures_of_masked_words(flags, capsys):
    lines = [json.loads(line) for line in Path(folder_of(flags), "metrics.jsonl").read_text().splitlines()]
    evaluated = [line for line in lines if "dev/teacher_forced/loss" in line]
    assert [line["step"] for line in evaluated] == [20, 40]
    assert evaluated[1]["dev/teacher_forced/loss"] < evaluated[0]["dev/teacher_forced/loss"]
    printed = []
    for _ in range(2):
        capsys.readouterr()
        assert eval_command.main(["t2t-eval", *flags]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1], "nothing is drawn by chance"
    assert "teacher_forced/loss = " in printed[0]


@pytest.fixture(scope="module")
def translator(flags):
    return t2t.load(folder_of(flags))


def test_the_decoder_answers_as_the_python_api_does(flags, translator, tmp_path, capsys):
    (tmp_path / "lines").write_text("\n".join([*LINES, ""]) + "\n")
    asked = [flags[1], f"--decode_from_file={tmp_path}/lines", f"--decode_to_file={tmp_path}/out"]
    assert decoder.main(["t2t-decoder", *asked]) == 0
    expected = [best.text for (best,) in translator.translate(LINES)]
    assert (tmp_path / "out").read_text().splitlines() == [*expected, ""]
    one = ["--mask_predict_iterations=1", "--length_candidates=2", "--n_best=2", "--output_format=jsonl"]
    assert decoder.main(["t2t-decoder", *asked[:2], f"--decode_to_file={tmp_path}/two", *one]) == 0
    found = [json.loads(line) for line in (tmp_path / "two").read_text().splitlines()]
    outputs = translator.translate(LINES, 2, mask_predict_iterations=1, length_candidates=2)
    assert [row["hypotheses"][0]["text"] for row in found[:4]] == [row[0].text for row in outputs]
    for line, row in zip(LINES, outputs, strict=True):
        assert row[0].log_prob == pytest.approx(translator.score([(line, row[0].text)])[0], abs=1e-3)
    capsys.readouterr()
    assert decoder.main(["t2t-decoder", *flags, "--decode_split=dev"]) == 0
    assert "BLEU" in capsys.readouterr().out.upper()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("--decode_beam_size=8", "hparam beam_size=8: nothing reads it while decode_method=mask_predict"),
        ("--decode_method=sample", "hparam decode_method=sample: transformer_cmlm predicts all tokens of an output at"),
        ("--eos_penalty=1", "hparam eos_penalty=1.0: nothing reads it while decode_method=mask_predict"),
        ("--shortlist", "hparam shortlist=True: nothing reads it while decode_method=mask_predict"),
        ("--alignments", "hparam alignments=True: nothing reads it while decode_method=mask_predict"),
        ("--engine=ctranslate2", "--engine=ctranslate2: it cannot hold this model: it is a TransformerCmlm"),
        ("--n_best=6", "n_best=6: mask_predict search of width 5 has from 1 to 5 hypotheses"),
        ("--target_prefix_file={lines}", "prefixes of outputs: a model of text2text_files answers at once"),
    ],
)
def test_what_it_cannot_do_is_one_line(flags, asked, said, tmp_path, capsys):
    (tmp_path / "lines").write_text("1 2\n")
    asked = asked.format(lines=tmp_path / "lines")
    command = [
        "t2t-decoder",
        flags[1],
        f"--decode_from_file={tmp_path}/lines",
        f"--decode_to_file={tmp_path}/out",
        asked,
    ]
    capsys.readouterr()
    assert decoder.main(command) == 2
    assert len([line for line in capsys.readouterr().err.splitlines() if said in line]) == 1
    assert not (tmp_path / "out").exists()


def test_an_ensemble_is_refused(flags, tmp_path, capsys):
    (tmp_path / "lines").write_text("1 2\n")
    run = folder_of(flags)
    asked = [f"--output_dir={run},{run}", f"--decode_from_file={tmp_path}/lines"]
    capsys.readouterr()
    assert decoder.main(["t2t-decoder", *asked]) == 2
    assert "--output_dir: run is decoded by mask-predict, and an ensemble averages what" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("format", "said"),
    [
        ("onnx", "--format=onnx: its script searches token by token, and TransformerCmlm is decoded by mask-predict"),
        ("litert", "is decoded by mask-predict; use saved_model"),
        ("ctranslate2", "it is a TransformerCmlm"),
    ],
)
def test_other_programs_cannot_search_so(flags, format, said, tmp_path, capsys):
    asked = [*flags, f"--export_dir={tmp_path}/export", f"--format={format}"]
    capsys.readouterr()
    assert exporter.main(["t2t-exporter", *asked]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "export").exists()


def test_a_saved_model_answers_as_the_run_does(flags, tmp_path):
    asked = [*flags, f"--export_dir={tmp_path}/export", "--format=saved_model", "--n_best=2"]
    assert exporter.main(["t2t-exporter", *asked]) == 0
    report = json.loads((tmp_path / "export" / "t2t_export.json").read_text())
    assert report["n_best"] == 2


def test_the_server_answers(translator):
    expected = [best.text for (best,) in translator.translate(LINES)]
    with TestClient(
        build_app(Service([ServedModel("cmlm", translator, 1)]), ["127.0.0.1"]), "http://127.0.0.1"
    ) as client:
        found = client.post("/translate", json={"text": LINES}).json()["translations"]
        assert [row["outputs"][0]["text"] for row in found] == expected
        refused = client.post("/translate", json={"text": "1", "beam_size": 2})
        assert refused.status_code == 400
        assert "beam_size=2: nothing reads it while decode_method=mask_predict" in refused.text
        streamed = client.post("/translate", json={"text": LINES[0], "stream": True})
        assert json.dumps(expected[0])[1:-1] in streamed.text
