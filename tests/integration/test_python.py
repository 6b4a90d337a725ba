"""`import t2t`: the commands as functions, the page on them, and the notebook."""

import re
import subprocess
import sys

import nbformat
import pytest

import t2t
from t2t.errors import UserError
from t2t.runs import training
from tests.integration.conftest import SIZES, TINY, write_digits
from tests.notebook import WALK, executed
from tests.readme import ROOT, block, execute


def test_importing_and_listing_load_neither_tensorflow_nor_keras():
    code = "import sys, t2t; t2t.registered('model'); print({'tensorflow', 'keras', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "set()\n"


def test_names_come_with_a_line_on_each():
    assert "transformer" in t2t.registered("model")
    assert list(t2t.registered("hparams", "quickstart")) == ["transformer_quickstart"]
    assert all(t2t.registered("problem", "translate_").values())
    with pytest.raises(UserError, match="registered 'models': there is no such kind; ask for one of problem, model, "):
        t2t.registered("models")


@pytest.mark.slow
def test_each_step_is_a_function(tmp_path):
    options = dict(flag.removeprefix("--").split("=") for flag in write_digits(tmp_path))
    problem = options.pop("problem")
    assert t2t.generate_data(problem, tmp_path / "data", **options) == SIZES
    given = {
        "data_dir": tmp_path / "data",
        "problem_options": options,
        "hparams": TINY,
        "worker_cpu": 1,
        "eval_steps": 0,
    }
    run = t2t.train(problem, "transformer", "transformer_tiny", tmp_path / "run", train_steps=1, **given)
    assert run == tmp_path / "run"
    assert t2t.train(output_dir=run, data_dir=tmp_path / "data", worker_cpu=1) == run
    found = t2t.export_model(run, tmp_path / "fast", "ctranslate2", data_dir=tmp_path / "data", parity_lines=5)
    assert found["greedy search"].identical == 5
    with pytest.raises(UserError, match="--format=pickle: there is no such format; ask for one of saved_model, "):
        t2t.export_model(run, tmp_path / "other", "pickle", data_dir=tmp_path / "data")


def test_training_that_a_signal_ends_is_an_interrupt(tmp_path, monkeypatch):
    class Stopped:
        def fit(self, callbacks):
            return 2

    monkeypatch.setattr(training.TrainingRun, "of", lambda request, settings: Stopped())
    with pytest.raises(KeyboardInterrupt, match="was stopped; the same call goes on with it"):
        t2t.train("algorithmic_copy", "transformer", "transformer_tiny", tmp_path)


@pytest.mark.slow
def test_the_program_of_the_page_runs(tmp_path):
    """With four updates for each training."""
    (tmp_path / "examples").symlink_to(ROOT / "examples", target_is_directory=True)
    page = block("program", page=ROOT / "docs/python.md")
    short = re.sub(r"(train_steps|log_every)=\d+", r"\1=4", page)
    done = execute("python", short, tmp_path)
    assert done.returncode == 0, done.stderr
    sizes, losses, *_, shape, parity = done.stdout.splitlines()
    assert sizes == "{'train': 5000, 'dev': 200}"
    assert re.fullmatch(r"4 \d+\.\d+", losses)
    assert re.fullmatch(r"\(\d+, \d+, \d+, 3\)", shape)
    assert "identical=20" in parity


@pytest.mark.slow
def test_the_notebook_runs_and_shows_what_it_says(tmp_path):
    """With four updates: what is stored is of its own number of them."""
    stored, found = nbformat.read(WALK, as_version=4), executed(tmp_path, updates=4)
    for before, now in zip(stored.cells, found.cells, strict=True):
        if before.cell_type == "code":
            assert kinds(before) == kinds(now), before.source
    listed = [cell for cell in found.cells if "generate_data" in cell.source and cell.cell_type == "code"]
    assert listed[0].outputs[0].data["text/plain"] == "{'train': 50000, 'dev': 1000, 'test': 1000}"
    assert "50 of 50 outputs are those of the run" in str(found)


def kinds(cell):
    """What a cell shows: kinds of results and pictures; what is told on the way may be cut otherwise."""
    return [sorted(output.data) for output in cell.outputs if "data" in output]
