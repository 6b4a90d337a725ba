"""`t2t-exporter`: exports work without the run and this library, and are deleted if outputs differ."""

import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import t2t
from t2t.checkpoints.store import CheckpointStore
from t2t.cli import decoder, exporter, importer
from t2t.files.atomic import exclusive_lock, lock_beside
from t2t.formats.exporter import Needs
from t2t.formats.parity import PROMISES
from t2t.registry import EXPORTERS
from tests.in_process import call, refuses
from tests.peers import with_transformers
from tests.readme import ROOT, block, blocks, succeed
from tests.reference import marian

LINES = ["1 2 3", "", "  ", "9 8 7 6 5 4 3 2 1", "0", "7 seven 7", " ".join("0123456789" * 4), "4\t4\u00a05"]

ALONE = """
import json, sys
sys.modules["t2t"] = None  # the library cannot be imported
folder = sys.argv[1]
"""
SERVE = """
import tensorflow as tf
import tensorflow_text

loaded = tf.saved_model.load(folder).signatures
lines = json.load(sys.stdin)
found = loaded["serving_default"](text=tf.constant(lines))
print(json.dumps([[[t.decode() for t in row] for row in found["outputs"].numpy()], found["scores"].numpy().tolist()]))
"""
CTRANSLATE2 = """
import ctranslate2

translator = ctranslate2.Translator(folder)
words = [line.split() for line in json.load(sys.stdin)]
found = translator.translate_batch(words, beam_size=1, max_decoding_length=9, suppress_sequences=[["<pad>"]])
print(json.dumps([" ".join(one.hypotheses[0]) for one in found]))
"""


def alone(script, folder, lines):
    """Runs a script in a fresh process with only the exported folder; returns the JSON that it printed."""
    command = [sys.executable, "-c", ALONE + script, str(folder)]
    done = subprocess.run(command, input=json.dumps(lines), capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def exported(tiny_run, tmp_path, *flags):
    """Exports a copy of the run and deletes the copy; returns the export's folder, its report and what was printed."""
    run, folder = tmp_path / "run", tmp_path / "served" / "1"
    shutil.copytree(tiny_run.output_dir, run)
    printed = call(exporter, *flags, output_dir=run, data_dir=tiny_run.data_dir, export_dir=folder).out
    shutil.rmtree(run)
    assert [path.name for path in folder.parent.iterdir()] == ["1"]
    return folder, json.loads((folder / "t2t_export.json").read_text()), printed


def decoded(tiny_run, tmp_path, lines, *flags):
    """Returns the output of `t2t-decoder` for lines."""
    (tmp_path / "source").write_text(lines)
    files = {"decode_from_file": tmp_path / "source", "decode_to_file": tmp_path / "target"}
    call(decoder, *flags, output_dir=tiny_run.output_dir, **files)
    return (tmp_path / "target").read_text()


def run_readme(folder):
    """Runs the only block of an export's README in its folder; returns its input line and what it printed."""
    (shown,) = blocks(folder / "README.md")
    given = re.search(r"(?:echo |constant\(\[|encode\()(['\"]?)(.+?)\1(?: \||\)|\])", shown.text)[2]
    return f"{given}\n", succeed(shown.text, folder, shown.language).stdout


@pytest.mark.slow  # that TensorFlow alone answers as the run, and the README of an export runs as it stands
def test_a_saved_model_answers_as_the_decoder_without_run_and_library(tiny_run, tmp_path):
    folder, report, printed = exported(tiny_run, tmp_path, "--n_best=2")
    for name in ("serving_default", "ids"):
        assert f"{name}: 12 of 12 outputs are those of the run" in printed
    assert report["format"] == "saved_model"
    assert report["run"] | {"step": 40, "model": "transformer"} == report["run"]
    assert report["inputs"] == "the dev split of text2text_files"
    assert report["parity"]["ids"] | {"identical": 12} == report["parity"]["ids"]
    assert report["parity"]["ids"]["promised"] == {"identical_share": 1.0, "score_difference": 0.001}
    lines = decoded(tiny_run, tmp_path, "\n".join([*LINES, ""]), "--n_best=2", "--output_format=jsonl").splitlines()
    for text, score, line in zip(*alone(SERVE, folder, LINES), lines, strict=True):
        wanted = json.loads(line)["hypotheses"]
        assert text[: len(wanted)] == [one["text"] for one in wanted]
        assert score[: len(wanted)] == pytest.approx([one["score"] for one in wanted], abs=1e-4)
    given, found = run_readme(folder)
    texts = decoded(tiny_run, tmp_path, given, "--n_best=2").strip("\n").split("\t")
    assert found == "[[" + " ".join(f"b{text!r}" for text in texts) + "]]\n"


@pytest.mark.exhaustive  # that flags of checkpoint, search and comparison reach the export
def test_search_and_checkpoint_are_those_that_are_asked_for(tiny_run, tmp_path):
    lines = tmp_path / "lines"
    lines.write_text("1 2\n3 3 3\n5\n")
    flags = ["--checkpoint=20", "--decode_beam_size=3", "--decode_alpha=1.5", "--decode_extra_length=1"]
    folder, report, _ = exported(tiny_run, tmp_path, *flags, f"--parity_file={lines}", "--parity_lines=2")
    assert report["run"]["step"] == 20
    assert report["parity"]["serving_default"]["inputs"] == report["parity"]["ids"]["inputs"] == 2
    assert report["inputs"] == f"lines of {lines.name}"
    translator = t2t.load(str(tiny_run.output_dir), checkpoint="20")
    expected = translator.translate(["1 2", "3 3 3"], beam_size=3, alpha=1.5, extra_length=1)
    texts, scores = alone(SERVE, folder, ["1 2", "3 3 3"])
    assert texts == [[found.text] for (found,) in expected]
    assert scores == [[pytest.approx(found.score, abs=1e-4)] for (found,) in expected]


def test_a_plug_in_writes_a_format_of_its_own_and_reads_it_back(tiny_run, tmp_path):
    plugin = {"t2t_usr_dir": ROOT / "examples/npz"}
    printed = call(exporter, *tiny_run.flags, **plugin, format="npz", export_dir=tmp_path / "archive").out
    assert re.search(r"weights: (\d+) of \1 outputs are those of the run, scores differ by up to 0\n", printed)
    call(importer, **{"from": "npz"}, **plugin, model_dir=tmp_path / "archive", output_dir=tmp_path / "again")
    folders = [tiny_run.output_dir, tmp_path / "again"]
    ours, theirs = (CheckpointStore(folder / "checkpoints").load().model for folder in folders)
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[path], theirs[path]) for path in ours)
    assert len({t2t.load(str(folder)).translate(LINES[:1])[0][0].text for folder in folders}) == 1
    listed = call(importer, **plugin, registry_help="npz").out.split("\n")
    assert [line.split()[0] for line in listed if line.startswith("  ")] == ["npz", "npz"]
    refuses(exporter, "--format=npy saved_model", *tiny_run.flags, format="npy", export_dir=tmp_path / "new")
    refuses(importer, "--from=npy huggingface", "--from=npy", model_dir=tmp_path, output_dir=tmp_path / "new")


@pytest.mark.slow  # that CTranslate2 alone answers as the run, and the README of an export runs as it stands
def test_a_model_of_ctranslate2_answers_without_run_and_library(tiny_run, tmp_path):
    folder, _, printed = exported(tiny_run, tmp_path, "--format=ctranslate2")
    assert "greedy search: 12 of 12 outputs are those of the run" in printed
    found = alone(CTRANSLATE2, folder, ["1 2 3 4", "5 5 6 7"])
    expected = t2t.load(str(tiny_run.output_dir)).translate(["1 2 3 4", "5 5 6 7"], decode_method="greedy")
    assert found == [one.text for (one,) in expected]
    vocabulary = "vocab.shared.token.tokens"
    assert (folder / vocabulary).read_bytes() == (tiny_run.output_dir / "vocab" / vocabulary).read_bytes()
    assert "beam_size=2" in (folder / "README.md").read_text()
    given, found = run_readme(folder)
    assert found.strip() == decoded(tiny_run, tmp_path, given).strip()


@pytest.mark.exhaustive  # that the script beside graphs runs in another folder, and on lines of every kind
@pytest.mark.parametrize(("format", "graphs"), [("onnx", {"begin.onnx", "step.onnx"}), ("litert", {"model.tflite"})])
def test_graphs_search_as_the_decoder(tiny_run, tmp_path, format, graphs):
    folder, _, printed = exported(tiny_run, tmp_path, f"--format={format}")
    assert "greedy search: 12 of 12 outputs are those of the run" in printed
    assert {path.name for path in folder.iterdir()} == graphs | {
        "README.md", "config.json", "graphs.json", "t2t_export.json", "translate.py", "vocab.shared.token.tokens",
        "vocabularies.py",
    }  # fmt: skip
    given, found = run_readme(folder)
    assert found == decoded(tiny_run, tmp_path, given, "--decode_method=greedy")
    source = "".join(line + "\n" for line in LINES)
    command = [sys.executable, str(folder / "translate.py")]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == decoded(tiny_run, tmp_path, source, "--decode_method=greedy")


@pytest.mark.slow  # that a run is exported without its data, compared on what is found
@pytest.mark.parametrize("found", [True, False])
def test_a_run_directory_alone_is_exported(tiny_run, tmp_path, monkeypatch, found):
    """Compared on the data in the default folder if it is the run's, else on random texts of the run's vocabulary."""
    monkeypatch.setenv("HOME", str(tmp_path))
    if found:
        (tmp_path / "t2t_data").symlink_to(tiny_run.data_dir)
    flags = ["--format=ctranslate2", "--parity_lines=9"]
    call(exporter, *flags, output_dir=tiny_run.output_dir, export_dir=tmp_path / "export")
    report = json.loads((tmp_path / "export/t2t_export.json").read_text())
    made = "random texts made of the run's vocabulary, seed 0"
    assert report["inputs"] == ("the dev split of text2text_files" if found else made)
    assert report["parity"]["greedy search"]["identical"] == 9


def test_what_is_wrong_is_said_and_nothing_written(tiny_run, tmp_path, monkeypatch):
    monkeypatch.setitem(vars(EXPORTERS.get("onnx")), "needs", Needs(packages=("no_such_package",), extra="onnx"))
    new, data = tmp_path / "new", f"--data_dir={tiny_run.data_dir}"
    for about, *flags in (
        ("--parity_file", f"--data_dir={tmp_path}"),
        ("--parity_file=/dev/null", data, "--parity_file=/dev/null"),
        ("n_best=3 2", data, "--n_best=3"),
        ("--format=onnx: no_such_package 't2t-keras[onnx]'", data, "--format=onnx"),
    ):
        refuses(exporter, about, *flags, output_dir=tiny_run.output_dir, export_dir=new)
    with exclusive_lock(lock_beside(new)):
        refuses(exporter, f"--export_dir={new} {os.getpid()}", *tiny_run.flags, export_dir=new)
    assert list(tmp_path.iterdir()) == []


def test_help_says_what_is_promised():
    page = (ROOT / "docs/exporting.md").read_text(encoding="utf-8")
    printed, shown = (" ".join(text.split()) for text in (call(exporter, "--help").out, page))
    for promise in PROMISES.values():
        assert str(promise) in printed
        assert str(promise) in shown


# === `t2t-exporter --format=huggingface` on the command line, with transformers itself, which takes long to import ===
OWN = r"""
problem="--problem=text2text_files --data_dir=data"
t2t-datagen $problem --train_source=train.source --train_target=train.target --dev_source=dev.source \
  --dev_target=dev.target --vocab_kind=sentencepiece --vocab_size=300
run="$problem --model=transformer --hparams_set=transformer_tiny --worker_cpu=1 --eval_steps=1 --train_steps=8"
sizes="hidden_size=16,filter_size=32,num_heads=2,batch_size=256,max_length=64,num_hidden_layers=1,extra_length=4"
t2t-trainer $run --hparams=$sizes --output_dir=base --local_eval_frequency=8
t2t-trainer $run --hparams="$sizes,lora_rank=2,lora_targets=query_kernel|ffn" --warm_start_from=base \
  --output_dir=adapted --local_eval_frequency=4
t2t-avg-all --output_dir=adapted --n=2
t2t-exporter --output_dir=base --data_dir=data --export_dir=of_base --format=huggingface
t2t-exporter --output_dir=adapted --data_dir=data --checkpoint=averaged --export_dir=of_adapters --format=huggingface
"""
IMPORT = "t2t-import --from=huggingface --model_dir=opus --output_dir=imported\n"


@pytest.mark.slow
def test_the_commands_of_the_page_on_transformers(tmp_path):
    """An imported translator is exported and imported again; the code of its model card runs unchanged."""
    marian.write_model(tmp_path / "opus")
    shown = block("export-huggingface", page=ROOT / "docs/exporting.md")
    shown = shown.replace("--format=huggingface", "--format=huggingface --parity_lines=12")
    succeed(with_transformers(tmp_path / "path") + IMPORT + shown, tmp_path)
    parity = json.loads((tmp_path / "translator/t2t_export.json").read_text())["parity"]
    assert parity["ids of texts"]["identical"] == parity["greedy search"]["identical"] == 12
    assert parity["beam search of 6"]["promised"] is None
    first, again = (t2t.load(str(tmp_path / name)) for name in ("imported", "again"))
    for ours, theirs in zip(first.model.variables, again.model.variables, strict=True):
        assert (ours.numpy() == theirs.numpy()).all(), ours.path
    (card,) = blocks(tmp_path / "translator/README.md")
    (tmp_path / "card.py").write_text(card.text)
    begun = with_transformers(tmp_path / "other") + "python ../card.py"
    assert succeed(begun, tmp_path / "translator").stdout.strip()


@pytest.mark.slow
def test_runs_trained_here_with_adapters_and_averages(tiny_run, tmp_path):
    for file in tiny_run.raw_dir.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    printed = succeed(with_transformers(tmp_path / "path") + OWN, tmp_path).stdout
    assert "greedy search: 12 of 12 outputs are those of the run" in printed
    card = (tmp_path / "of_base/README.md").read_text()
    assert "Scores on the dev split after update 8" in card
    assert "| bleu | " in card
    assert "has no scores of this checkpoint" in (tmp_path / "of_adapters/README.md").read_text()
