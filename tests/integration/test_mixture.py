"""One model learns two problems at once, on the command line.

Slow: nothing quicker proves that all commands tell the problems of one run apart.
"""

import json
import shutil

import numpy as np
import pytest

import t2t
from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.cli import datagen, decoder, trainer
from t2t.cli import eval as eval_command
from tests.in_process import call, refuses

pytestmark = pytest.mark.slow

COPY, REVERSE = "tiny_algo", "algorithmic_reverse_binary40_test"
BOTH = f"{COPY}-{REVERSE}"
TINY = (
    "hidden_size=16,filter_size=32,num_heads=2,num_hidden_layers=1,batch_size=256,max_length=24,"
    "learning_rate_schedule=constant,learning_rate=0.01,learning_rate_warmup_steps=5,beam_size=2,extra_length=2,"
    "problem_choice=weights,problem_weights=[1,2],problem_batch_sizes=[128,256]"
)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    call(datagen, problem=BOTH, data_dir=folder)
    return folder


def train_flags(data_dir, hparams=TINY):
    return [
        f"--problems={BOTH}", f"--data_dir={data_dir}", "--model=transformer", "--hparams_set=transformer_tiny",
        f"--hparams={hparams}", "--local_eval_frequency=6", "--eval_steps=1", "--log_step_count_steps=3",
        "--worker_cpu=1",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def run(data_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    call(trainer, *train_flags(data_dir), output_dir=folder, train_steps=12)
    return folder


def test_the_run_records_its_problems_vocabularies_figures_and_best_checkpoints(run):
    record = RunDir.open(run).record
    assert record.problems == (COPY, REVERSE)
    assert set(record.vocabularies) == {f"{name}.{side}" for name in (COPY, REVERSE) for side in ("inputs", "targets")}
    alone = record.for_problem(REVERSE)
    assert set(alone.vocabularies) == {"inputs", "targets"}
    assert (alone.problem, alone.spec.name) == (REVERSE, REVERSE)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    evaluations = [line for line in lines if f"dev/{COPY}/accuracy_per_sequence" in line]
    assert [line["step"] for line in evaluations] == [6, 12]
    for line in evaluations:
        losses = [line[f"dev/{name}/teacher_forced/loss"] for name in (COPY, REVERSE)]
        np.testing.assert_allclose(line["dev/mean/teacher_forced/loss"], sum(losses) / 2, rtol=1e-6)
    store = CheckpointStore(run / "checkpoints")
    assert store.best().metric == "mean/teacher_forced/loss"
    assert store.best(REVERSE).metric == f"{REVERSE}/accuracy_per_sequence"
    assert any(f"train/{REVERSE}/loss" in line for line in lines)


def test_decoding_names_its_problem_each_with_a_conversion_of_its_own(run, tmp_path):
    copied, texts = shutil.copytree(run, tmp_path / "run"), ["0 1 1", "1 0"]
    (tmp_path / "in").write_text("0 1 1\n1 0\n")
    flags = {"output_dir": copied, "decode_from_file": tmp_path / "in"}
    for problem in (COPY, REVERSE):
        call(decoder, **flags, problem=problem)
        written = tmp_path / f"in.transformer.transformer_tiny.{problem}.beam2.alpha0.6.decodes"
        translator = t2t.load(copied, problem=problem)
        assert written.read_text().splitlines() == [best.text for (best,) in translator.translate(texts)]
        expected = translator.translate(texts[:1], decode_method="greedy")[0][0].ids
        for _ in range(2):  # converted first, then loaded from the cache
            fast = t2t.load(copied, problem=problem, engine="ctranslate2")
            assert fast.translate(texts[:1], decode_method="greedy")[0][0].ids == expected
    refuses(decoder, f"{copied} --problem {COPY}, {REVERSE}", **flags)
    refuses(decoder, f"--problem=algorithmic_sort_binary40 {BOTH}", "--problem=algorithmic_sort_binary40", **flags)


@pytest.mark.exhaustive  # that a run of several problems is resumed bit for bit, whichever comes next
def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(data_dir, run, tmp_path):
    call(trainer, *train_flags(data_dir), output_dir=tmp_path / "run", train_steps=6)
    settings = ["--local_eval_frequency=6", "--eval_steps=1", "--worker_cpu=1"]
    call(trainer, *settings, output_dir=tmp_path / "run", data_dir=data_dir, train_steps=12)
    whole, resumed = (CheckpointStore(folder / "checkpoints").load() for folder in (run, tmp_path / "run"))
    assert whole.step == resumed.step == 12
    assert whole.state == resumed.state
    for part in ("model", "optimizer"):
        for name, value in getattr(whole, part).items():
            assert value.tobytes() == getattr(resumed, part)[name].tobytes(), name


def test_evaluating_names_a_problem_or_takes_all(data_dir, run):
    flags = {"output_dir": run, "data_dir": data_dir}
    alone = call(eval_command, **flags, problem=REVERSE, checkpoint=f"best.{REVERSE}").out
    assert alone.startswith(f"100 of 100 dev examples of {REVERSE}, step-")
    assert COPY not in alone
    both = call(eval_command, **flags).out
    for problem in (COPY, REVERSE):
        assert f"100 of 100 dev examples of {problem}, step-00000012 (12 updates)" in both


def test_what_cannot_be_is_refused_in_one_line(data_dir, run, tmp_path):
    other = train_flags(data_dir, TINY.replace("[1,2]", "[1,3]"))
    refuses(trainer, "problem_weights [1.0, 3.0], [1.0, 2.0]", *other, output_dir=run, train_steps=12)
    mixed = f"{COPY}-languagemodel_files"
    asked = [f"--problems={mixed}", "--model=transformer", "--hparams_set=transformer_tiny"]
    refuses(trainer, f"--problems={mixed}: {COPY}", *asked, data_dir=data_dir, output_dir=tmp_path / "third")
