"""`t2t-trainer --dry_run`: what a run would be, and nothing made."""

import re

from t2t.cli import trainer


def test_what_a_run_would_be_is_printed_and_nothing_made(tiny_run, tmp_path, capsys):
    flags = [*tiny_run.train_flags, f"--output_dir={tmp_path / 'run'}", "--train_steps=200", "--dry_run"]
    assert trainer.main(["t2t-trainer", *flags]) == 0
    said = capsys.readouterr().err
    assert "problem text2text_files, model transformer, hparams set transformer_tiny" in said
    assert re.search(r"^parameters: [\d,]+; float32 on CPU:0$", said, re.M)
    lengths = [len(line.split()) + 1 for line in (tiny_run.raw_dir / "train.source").read_text().splitlines()]
    examples = 256 / (sum(lengths) / len(lengths))
    assert re.search(rf"^batch_size=256 padded .* = 256 an update, about {examples:.0f} example\(s\)$", said, re.M)
    assert re.search(r"^memory: about [\d,]+ MiB on each replica \(weights", said, re.M)
    said_of_cost = r"^training: about (\S+) floating-point operations in matrix products for 200 updates, (\S+) each$"
    cost = re.search(said_of_cost, said, re.M)
    assert abs(float(cost[1]) / float(cost[2]) / 200 - 1) < 0.05
    assert not (tmp_path / "run").exists()


def test_what_is_not_counted_is_said(tiny_run, tmp_path, capsys):
    shared = [flag for flag in tiny_run.train_flags if not flag.startswith(("--model", "--hparams"))]
    flags = [*shared, "--model=lstm_seq2seq", "--hparams_set=lstm_seq2seq_tiny", f"--output_dir={tmp_path / 'run'}"]
    assert trainer.main(["t2t-trainer", *flags, "--dry_run"]) == 0
    said = capsys.readouterr().err
    assert re.search(r" each; what the model does in loops, step by step, is not counted and comes on top$", said, re.M)
