"""`import t2t`: the commands as functions, the page on them, and the notebook."""

import os
import re
import signal
import subprocess
import sys
from types import SimpleNamespace

import keras
import nbformat
import numpy as np
import pytest

import t2t
from t2t.runs import training
from tests.errors import refused
from tests.integration.conftest import SIZES, TINY, write_digits
from tests.notebook import WALK, executed
from tests.readme import ROOT, block, execute, succeed


def test_importing_listing_serving_pages_and_looking_at_data_load_nothing_that_takes_long(tmp_path):
    """So that a folder of many runs opens at once; names of a folder of one's own are listed, too."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/__init__.py").write_text(
        "import t2t\n\n\n@t2t.register_problem\nclass MyWords(t2t.Text2Text):\n    '''Words.'''\n\n"
        "    def generate_samples(self, split, source):\n        yield from ()\n"
    )
    modules = ("t2t.runs.data", "t2t.cli.insight", "t2t.serving.routes", "t2t.studio.routes")
    code = (
        f"import sys, t2t, t2t.studio.split_data, {', '.join(modules)}; t2t.registered('model')\n"
        "print([*t2t.registered('problem', 'my_', t2t_usr_dir='mine')])\n"
        "print({'tensorflow', 'keras', 'fsspec', 'plotly', 'matplotlib'} & {*sys.modules})"
    )
    there = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(ROOT)}}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, **there)
    assert done.stdout == "['my_words']\nset()\n"


def digits(folder):
    """Generates the data of a small problem; returns training arguments, problem options and the data folder."""
    options = dict(flag.removeprefix("--").split("=") for flag in write_digits(folder))
    problem, data_dir = options.pop("problem"), folder / "data"
    assert t2t.generate_data(problem, data_dir, **options) == SIZES
    return (problem, "transformer", "transformer_tiny"), options, data_dir


def test_names_come_with_a_line_on_each_and_mistakes_are_what_the_page_says(tmp_path):
    assert "transformer" in t2t.registered("model")
    assert list(t2t.registered("hparams", "quickstart")) == ["transformer_quickstart"]
    assert all(t2t.registered("problem", "translate_").values())
    with refused("'models'", "problem", "model"):
        t2t.registered("models")
    succeed(block("mistakes", page=ROOT / "docs/python.md"), tmp_path, "python", is_warm=False)


@pytest.mark.slow  # that functions train, resume and export without a command
def test_each_step_is_a_function(tmp_path):
    names, options, data_dir = digits(tmp_path)
    settings = {"data_dir": data_dir, "worker_cpu": 1}
    given = {"problem_options": options, "hparams": TINY, "eval_steps": 0, "train_steps": 1}
    run = t2t.train(*names, tmp_path / "run", **settings, **given)
    assert run == tmp_path / "run"
    assert t2t.train(output_dir=run, **settings) == run
    found = t2t.export_model(run, tmp_path / "fast", "ctranslate2", data_dir=data_dir, parity_lines=5)
    assert found["greedy search"].identical == 5
    with refused("format=pickle", "saved_model"):
        t2t.export_model(run, tmp_path / "other", "pickle", data_dir=data_dir)


def test_a_layer_that_is_built_by_a_call_is_named_before_the_first_update(tmp_path):
    """It would not be trained, and no checkpoint could be loaded."""
    (problem, *_), options, data_dir = digits(tmp_path)
    source = (ROOT / "examples/usr_dir/bag_of_words.py").read_text(encoding="utf-8")
    late = source.replace("my_bag_tiny", "late_set").replace("MyBagOfWords", "Late")
    late = late.replace("        self.build()\n", "        self.build_modality_weights()\n        self.built = True\n")
    (tmp_path / "late").mkdir()
    (tmp_path / "late/__init__.py").write_text(late, encoding="utf-8")
    given = {"data_dir": data_dir, "problem_options": options, "worker_cpu": 1, "t2t_usr_dir": tmp_path / "late"}
    with refused("Late", "mix/kernel"):
        t2t.train(problem, "late", "late_set", tmp_path / "run", **given)
    assert not (tmp_path / "run/run.json").exists()


def test_training_that_a_signal_ends_is_an_interrupt(tmp_path, monkeypatch):
    stopped = SimpleNamespace(fit=lambda callbacks: signal.SIGINT)
    monkeypatch.setattr(training, "TrainingRun", lambda experiment, cluster: stopped)
    names, options, data_dir = digits(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        t2t.train(*names, tmp_path / "run", problem_options=options, data_dir=data_dir)


def test_what_shows_before_tensorflow_is_refused_there(tmp_path):
    code = (
        "import sys, t2t\n"
        "try:\n    t2t.train('translate_ende_numbers', 'transformer', 'transformer_tiny', 'run', data_dir='none')\n"
        "except t2t.UserError as error:\n    print(error, {'tensorflow', 'keras'} & set(sys.modules))"
    )
    done = execute("python", code, tmp_path, is_warm=False)
    assert done.stdout.startswith("no data of translate_ende_numbers in none; make it with t2t.generate_data(")
    assert done.stdout.endswith(" set()\n")
    assert not (tmp_path / "run").exists()


@pytest.mark.exhaustive  # that the program of the page runs, with four updates per training
def test_the_program_of_the_page_runs(tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples", target_is_directory=True)
    page = block("program", page=ROOT / "docs/python.md")
    done = succeed(
        re.sub(r"(train_steps|log_step_count_steps|local_eval_frequency)=\d+", r"\1=4", page), tmp_path, "python"
    )
    sizes, losses, *_, shape, parity = done.stdout.splitlines()
    assert sizes == "{'train': 5000, 'dev': 200}"
    assert re.fullmatch(r"4 \d+\.\d+", losses)
    assert re.fullmatch(r"\(\d+, \d+, \d+, 3\)", shape)
    assert "identical=20" in parity


@pytest.mark.exhaustive  # that the notebook shows what it says
def test_the_notebook_runs_and_shows_what_it_says(tmp_path):
    """With four updates; the stored outputs are of the notebook's own number of updates."""
    stored, found = nbformat.read(WALK, as_version=4), executed(tmp_path, updates=4)
    for before, now in zip(stored.cells, found.cells, strict=True):
        if before.cell_type == "code":
            assert kinds(before) == kinds(now), before.source
    listed = [cell for cell in found.cells if "generate_data" in cell.source and cell.cell_type == "code"]
    assert listed[0].outputs[0].data["text/plain"] == "{'train': 50000, 'dev': 1000, 'test': 1000}"
    assert "50 of 50 outputs are those of the run" in str(found)


def kinds(cell):
    """The kinds of results and pictures that a cell shows; printed text may be split differently."""
    return [sorted(output.data) for output in cell.outputs if "data" in output]


@pytest.mark.exhaustive  # that callbacks of Keras see and stop a training, which goes on as if nothing had happened
@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't:DeprecationWarning")  # Keras saving weights
def test_callbacks_of_keras_work_and_change_no_weight(tmp_path):
    """Four updates with an evaluation every two, stopped half-way by a callback and resumed."""
    names, options, data_dir = digits(tmp_path)

    def train(folder, **given):
        shared = {
            "hparams": TINY,
            "problem_options": options,
            "worker_cpu": 1,
            "local_eval_frequency": 2,
            "eval_steps": 1,
        }
        return t2t.train(
            *names, tmp_path / folder, data_dir=data_dir, train_steps=4, log_step_count_steps=1, **shared, **given
        )

    weights = str(tmp_path / "{epoch}.weights.h5")
    stopping = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: stop(epoch))
    callbacks = [
        stopping,
        keras.callbacks.CSVLogger(tmp_path / "log.csv", append=True),
        keras.callbacks.ModelCheckpoint(weights, save_weights_only=True),
    ]

    def stop(epoch):
        stopping.model.stop_training = epoch == 0

    run = train("stopped", callbacks=callbacks)
    assert t2t.load(run, 2).translate(["1 2"])
    with refused("4"):
        t2t.load(run, 4)
    assert train("stopped", callbacks=callbacks[1:]) == run
    rows = (tmp_path / "log.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["epoch", "0", "1"]
    assert "val_loss" in rows[0].split(",")
    assert sorted(path.name for path in tmp_path.glob("*.weights.h5")) == ["1.weights.h5", "2.weights.h5"]
    found, expected = (t2t.load(folder).model.get_weights() for folder in (run, train("whole")))
    assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))
    model = t2t.load(run, 2).model
    model.load_weights(tmp_path / "2.weights.h5")
    assert all(np.array_equal(one, other) for one, other in zip(model.get_weights(), expected, strict=True))
