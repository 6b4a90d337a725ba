"""`t2t-shortlist` learns from a run's data, and `--shortlist` decodes with it."""

import re
import shutil

import pytest

import t2t
from t2t.cli import decoder, shortlist
from t2t.cli import eval as eval_command
from tests.errors import refused
from tests.in_process import call, refuses


@pytest.fixture
def run(tiny_run, tmp_path):
    """A copy of the run in which a shortlist may be stored."""
    return shutil.copytree(tiny_run.output_dir, tmp_path / "run")


def learn(run, tiny_run, *flags):
    return call(shortlist, *flags, output_dir=run, data_dir=tiny_run.data_dir).out


@pytest.mark.slow  # that commands, the API and the engine that leaves it to another decode with what was learned
def test_a_command_learns_it_and_the_others_use_it(run, tiny_run, tmp_path, caplog):
    """Targets are reversed digits, so each digit translates to itself, and with K = 1 only to itself."""
    printed = learn(run, tiny_run, "--frequent=0", "--translations=1")
    assert re.search(r"learned from 300 examples; dev: \d candidates for an input, among them 100\.0 % of", printed)
    source, target = tiny_run.raw_dir / "dev.source", tmp_path / "out"
    call(decoder, "--shortlist", output_dir=run, decode_from_file=source, decode_to_file=target)
    read, written = (path.read_text().splitlines() for path in (source, target))
    assert len(read) == len(written) == 12
    for line, output in zip(read, written, strict=True):
        assert set(output.split()) <= set(line.split())
    call(eval_command, "--shortlist", output_dir=run, data_dir=tiny_run.data_dir)
    for engine in ("tensorflow", "ctranslate2"):
        found = t2t.load(run, engine=engine).translate(read, shortlist=True)
        assert [one.text for (one,) in found] == written
    assert "shortlists" in caplog.text


def test_python_learns_what_the_command_learns(run, tiny_run):
    printed = learn(run, tiny_run)
    arrays = next((run / "shortlist").glob("*/*.safetensors"))
    content = arrays.read_bytes()
    report = t2t.learn_shortlist(run, tiny_run.data_dir)
    assert f"{report}\nwritten to {report.folder}\n" == printed
    assert report.coverage == 1.0
    assert arrays.read_bytes() == content
    assert t2t.learn_shortlist(run, tiny_run.data_dir, max_examples=50).examples == 50
    with refused("t2t.learn_shortlist", "'freqent'", "frequent"):
        t2t.learn_shortlist(run, tiny_run.data_dir, freqent=3)
    with refused("translations=0", 1):
        t2t.learn_shortlist(run, tiny_run.data_dir, translations=0)


def test_a_run_without_one_is_refused_at_once_and_training_and_exports_with_one(run, tiny_run, tmp_path):
    refuses(decoder, f"shortlist=True {run} --output_dir={run}", "--shortlist", output_dir=run)
    with refused("shortlist=True", f"--output_dir={run}"):
        t2t.load(run).translate(["1 2"], shortlist=True)
    data = {"data_dir": tiny_run.data_dir, "hparams": {"shortlist": True}}
    with refused("shortlist=True"):
        t2t.train(output_dir=run, **data)
    t2t.learn_shortlist(run, tiny_run.data_dir)
    with refused("shortlist=True"):
        t2t.export_model(run, tmp_path / "export", **data)
