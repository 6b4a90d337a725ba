"""One model learns two problems at once, on the command line."""

import json
import shutil

import numpy as np
import pytest

import t2t
from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.cli import datagen, decoder, trainer
from t2t.cli import eval as eval_command

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
    assert datagen.main(["t2t-datagen", f"--problem={BOTH}", f"--data_dir={folder}"]) == 0
    return folder


def train(data_dir, output_dir, *more, steps=12, hparams=TINY):
    return trainer.main([
        "t2t-trainer", f"--problems={BOTH}", f"--data_dir={data_dir}", f"--output_dir={output_dir}",
        "--model=transformer", "--hparams_set=transformer_tiny", f"--hparams={hparams}", f"--train_steps={steps}",
        "--local_eval_frequency=6", "--eval_steps=1", "--log_step_count_steps=3", "--worker_cpu=1", *more,
    ])  # fmt: skip


@pytest.fixture(scope="module")
def run(data_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    assert train(data_dir, folder) == 0
    return folder


def test_the_run_directory_records_the_problems_and_their_vocabularies(run):
    record = RunDir.open(run).record
    assert record.problems == (COPY, REVERSE)
    assert set(record.vocabularies) == {f"{name}.{side}" for name in (COPY, REVERSE) for side in ("inputs", "targets")}
    alone = record.for_problem(REVERSE)
    assert set(alone.vocabularies) == {"inputs", "targets"}
    assert (alone.problem, alone.spec.name) == (REVERSE, REVERSE)


def test_each_problem_is_decoded_by_a_conversion_of_its_own(run, tmp_path):
    copied = shutil.copytree(run, tmp_path / "run")
    for name in (COPY, REVERSE):
        expected = t2t.load(copied, problem=name).translate(["1 0 1"], decode_method="greedy")[0][0].ids
        for _ in range(2):  # converted first, then loaded from the cache
            fast = t2t.load(copied, problem=name, engine="ctranslate2")
            assert fast.translate(["1 0 1"], decode_method="greedy")[0][0].ids == expected


def test_figures_and_best_checkpoints_are_of_each_problem_and_of_all(run):
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


@pytest.mark.exhaustive
def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(data_dir, run, tmp_path):
    assert train(data_dir, tmp_path / "run", steps=6) == 0
    assert trainer.main([
        "t2t-trainer", f"--output_dir={tmp_path}/run", f"--data_dir={data_dir}", "--train_steps=12",
        "--local_eval_frequency=6", "--eval_steps=1", "--worker_cpu=1",
    ]) == 0  # fmt: skip
    whole, resumed = (CheckpointStore(folder / "checkpoints").load() for folder in (run, tmp_path / "run"))
    assert whole.step == resumed.step == 12
    assert whole.state == resumed.state
    for part in ("model", "optimizer"):
        for name, value in getattr(whole, part).items():
            assert value.tobytes() == getattr(resumed, part)[name].tobytes(), name


def test_evaluating_names_a_problem_or_takes_all(data_dir, run, capsys):
    flags = [f"--output_dir={run}", f"--data_dir={data_dir}"]
    assert eval_command.main(["t2t-eval", *flags, f"--problem={REVERSE}", "--checkpoint=best." + REVERSE]) == 0
    alone = capsys.readouterr().out
    assert alone.startswith(f"100 of 100 dev examples of {REVERSE}, step-")
    assert COPY not in alone
    assert eval_command.main(["t2t-eval", *flags]) == 0
    both = capsys.readouterr().out
    assert f"100 of 100 dev examples of {COPY}, step-00000012 (12 updates)" in both
    assert f"100 of 100 dev examples of {REVERSE}, step-00000012 (12 updates)" in both


def test_decoding_names_its_problem(run, tmp_path, capsys):
    (tmp_path / "in").write_text("0 1 1\n1 0\n")
    flags = [f"--output_dir={run}", f"--decode_from_file={tmp_path}/in"]
    for problem in (COPY, REVERSE):
        assert decoder.main(["t2t-decoder", *flags, f"--problem={problem}"]) == 0
        written = tmp_path / f"in.transformer.transformer_tiny.{problem}.beam2.alpha0.6.decodes"
        by_api = [best.text for (best,) in t2t.load(str(run), problem=problem).translate(["0 1 1", "1 0"])]
        assert written.read_text().splitlines() == by_api
    capsys.readouterr()
    assert decoder.main(["t2t-decoder", *flags]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"t2t-decoder: error: the run in {run} is of several problems; name one with --problem: {COPY}, {REVERSE}"
    )
    assert decoder.main(["t2t-decoder", *flags, "--problem=algorithmic_sort_binary40"]) == 2
    assert f"--problem=algorithmic_sort_binary40 asked, {BOTH} found" in capsys.readouterr().err


def test_what_cannot_be_is_refused_in_one_line(data_dir, run, tmp_path, capsys):
    def said():
        return capsys.readouterr().err.splitlines()[-1].removeprefix("t2t-trainer: error: ")

    assert train(data_dir, tmp_path / "new", f"--decode_from_file={run}/run.json") == 2
    assert said() == (
        f"--decode_from_file: --problems={BOTH} names several; train first, then decode one with t2t-decoder "
        f"--output_dir={tmp_path}/new --problem=..."
    )
    shutil.copytree(run, tmp_path / "run")
    other = TINY.replace("[1,2]", "[1,3]")
    assert train(data_dir, tmp_path / "run", hparams=other) == 2
    assert "hparam problem_weights: asked [1.0, 3.0], found [1.0, 2.0]" in said()
    model = ["--model=transformer", "--hparams_set=transformer_tiny", f"--output_dir={tmp_path}/third"]
    asked = [f"--problems={COPY}-languagemodel_files", f"--data_dir={data_dir}", *model]
    assert trainer.main(["t2t-trainer", *asked]) == 2
    assert said() == (
        f"--problems={COPY}-languagemodel_files: {COPY} has inputs and languagemodel_files has none, for which a body "
        f"has other layers; train those with inputs together, and those without"
    )
