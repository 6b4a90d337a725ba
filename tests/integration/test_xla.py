"""XLA compiles one program per shape of batches, all of them before the first update."""

import os
import re
import subprocess
import sys

import pytest

from t2t.checkpoints.run_dir import RunDir
from t2t.cli import trainer
from tests.in_process import refuses


@pytest.mark.exhaustive  # that XLA compiles no program in the middle of a training
def test_as_many_programs_are_compiled_as_were_announced(tiny_run, tmp_path):
    """Counted by the files that XLA dumps for each compiled program."""
    programs = tmp_path / "programs"
    hparams = next(flag for flag in tiny_run.train_flags if flag.startswith("--hparams="))
    hparams = hparams.replace("layer_prepostprocess_dropout=0.0", "layer_prepostprocess_dropout=0.1")
    flags = [flag for flag in tiny_run.train_flags if not flag.startswith("--hparams=")]
    flags += [f"{hparams},xla=on,fixed_shapes=3"]
    code = "import sys; from t2t.cli.trainer import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, *flags, f"--output_dir={tmp_path / 'run'}", "--train_steps=40"],
        capture_output=True, text=True, check=True,
        env=os.environ | {"XLA_FLAGS": f"--xla_dump_to={programs} --xla_dump_hlo_as_text"},
    )  # fmt: skip
    announced = re.search(r"XLA compiles (\d+) programs, one for each shape", done.stderr)
    compiled = list(programs.glob("*local_gradient*.before_optimizations.txt"))
    assert 2 <= int(announced[1]) <= 3
    assert len(compiled) == int(announced[1])
    assert RunDir.open(tmp_path / "run").record.hparams["train"]["xla"] == "on"


def test_a_model_with_loops_is_refused_before_anything_is_written(tiny_run, tmp_path):
    flags = [flag for flag in tiny_run.train_flags if not flag.startswith(("--hparams", "--model"))]
    model = ["--model=lstm_seq2seq", "--hparams_set=lstm_seq2seq_tiny", "--hparams=xla=on"]
    refuses(trainer, "xla=on: LstmSeq2seq --hparams=xla=off", *flags, *model, output_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()
