"""A problem whose features the model does not accept is refused before anything is written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import t2t
from t2t.cli import datagen, trainer
from t2t.cli import eval as eval_command
from tests.in_process import call, refuses

PLUGIN = '''
from t2t.problems.text_problems import Text2Class
from t2t.registry import register_problem


@register_problem
class Mood(Text2Class):
    """Whether a text is glad."""

    vocab_kind = "byte"
    class_labels = ("bad", "good")

    def generate_samples(self, split, source):
        for number in range(20):
            yield {"inputs": f"text {number}", "targets": self.class_labels[number % 2]}
'''
MODEL = ("--model=transformer", "--hparams_set=transformer_tiny", "--worker_cpu=1")
SAID = ("Transformer", "mood", "label", "tokens")
"""What the error is about: the model, the problem, the kind of its targets, the kind that the model takes."""

FRESH = """
import sys
from t2t.cli.trainer import main
from t2t.data.worker_pool import WorkerPool

fork = WorkerPool.__init__
def noted(pool, *arguments):
    fork(pool, *arguments)
    print("TensorFlow when the workers are forked:", "tensorflow" in sys.modules)
WorkerPool.__init__ = noted
sys.exit(main())
"""


@pytest.fixture(scope="module")
def usr_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moods")
    (folder / "__init__.py").write_text(PLUGIN)
    return folder


def flags(usr_dir, tmp_path, *more):
    return [f"--t2t_usr_dir={usr_dir}", "--problem=mood", f"--data_dir={tmp_path}/data", *more]


@pytest.mark.parametrize("more", [["--dry_run"], ["--generate_data"], ["--generate_data", "--dry_run"]])
def test_the_trainer_refuses_before_it_generates_or_trains(usr_dir, tmp_path, more):
    asked = flags(usr_dir, tmp_path, *MODEL, *more)
    printed = refuses(trainer, " ".join(SAID), *asked, output_dir=tmp_path / "run").err
    assert "examples written" not in printed
    assert not any((tmp_path / name).exists() for name in ("run", "data/mood", "data/.mood.partial"))


def test_data_that_is_there_is_refused_too(usr_dir, tmp_path):
    call(datagen, *flags(usr_dir, tmp_path))
    for more in ([], ["--dry_run"], ["--generate_data"]):
        refuses(trainer, " ".join(SAID), *flags(usr_dir, tmp_path, *MODEL, *more), output_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_variant_that_turns_its_label_into_inputs(usr_dir, tmp_path):
    asked = [flag.replace("=mood", "=mood_rev") for flag in flags(usr_dir, tmp_path, *MODEL, "--generate_data")]
    refuses(trainer, "Transformer mood_rev label tokens", *asked, output_dir=tmp_path / "run")


def test_evaluating_a_run_of_another_problem_names_both(tiny_run, usr_dir):
    about = "--problem=mood text2text_files"
    refuses(eval_command, about, *tiny_run.flags, "--problem=mood", t2t_usr_dir=usr_dir)


@pytest.mark.slow  # that workers are forked before TensorFlow is imported: it must not be forked
def test_a_fresh_process_forks_its_workers_before_it_looks_at_the_model(usr_dir, tmp_path):
    command = [
        sys.executable, "-c", FRESH,
        *flags(usr_dir, tmp_path, *MODEL, f"--output_dir={tmp_path}/run", "--generate_data"),
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(Path(t2t.__file__).parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 2
    assert done.stdout == "TensorFlow when the workers are forked: False\n"
    assert all(word in done.stderr.splitlines()[-1] for word in SAID)
    assert not (tmp_path / "data").exists()
