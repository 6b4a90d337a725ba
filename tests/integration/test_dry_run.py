"""`t2t-trainer --dry_run`: describes a run without writing anything."""

import re

import pytest

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


@pytest.mark.parametrize("has_data", [True, False])
def test_a_model_that_does_not_fit_into_memory_is_one_line(tiny_run, has_data, tmp_path, capsys, monkeypatch):
    def fail(hparams):
        raise MemoryError

    monkeypatch.setattr("t2t.runs.training.build_optimizer", fail)
    monkeypatch.setattr("t2t.runs.describing.build_optimizer", fail)
    named = ["--problem=wmt_ende_tokens_8k", "--model=transformer", "--hparams_set=transformer_tiny"]
    flags = tiny_run.train_flags if has_data else [*named, f"--data_dir={tmp_path}/data"]
    assert trainer.main(["t2t-trainer", *flags, f"--output_dir={tmp_path}/run", "--dry_run"]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == "t2t-trainer: error: the model does not fit into the device's memory; make it smaller"


def test_what_is_not_counted_is_said(tiny_run, tmp_path, capsys):
    shared = [flag for flag in tiny_run.train_flags if not flag.startswith(("--model", "--hparams"))]
    flags = [*shared, "--model=lstm_seq2seq", "--hparams_set=lstm_seq2seq_tiny", f"--output_dir={tmp_path / 'run'}"]
    assert trainer.main(["t2t-trainer", *flags, "--dry_run"]) == 0
    said = capsys.readouterr().err
    assert re.search(r" each; what the model does in loops, step by step, is not counted and comes on top$", said, re.M)


def test_without_data_vocabularies_have_their_nominal_sizes(tmp_path, capsys):
    """The paper's base model: 37.8 million weights of layers, and one embedding table of 32,768 x 512."""
    for more in ([], ["--generate_data"]):
        flags = ["--problem=wmt_ende_tokens_32k", "--model=transformer", "--hparams_set=transformer_tiny", *more]
        folders = [f"--data_dir={tmp_path}/data", f"--output_dir={tmp_path}/run"]
        assert trainer.main(["t2t-trainer", *flags, *folders, "--hparams=num_hidden_layers=1", "--dry_run"]) == 0
        said = capsys.readouterr().err.splitlines()
        assert said[2] == (
            f"data of wmt_ende_tokens_32k: vocabulary of 32,768, its nominal size; no data at "
            f"{tmp_path}/data/wmt_ende_tokens_32k"
        )
        d, ff, vocabulary = 128, 512, 32_768
        attention, norm, feed_forward = 4 * d * d, 2 * d, 2 * d * ff + ff + d
        encoder, decoder = attention + feed_forward + 2 * norm, 2 * attention + feed_forward + 3 * norm
        assert said[3] == f"parameters: {vocabulary * d + encoder + decoder:,}; float32 on CPU:0"
        assert said[4].startswith("100,000 updates, noam schedule, learning rate 0.0014 at most")
        assert "weights and optimizer; that of activations, and what training costs, depend on the lengths" in said[5]
        assert f"t2t-datagen --problem=wmt_ende_tokens_32k --data_dir={tmp_path}/data" in said[5]
        assert len(said) == 6
        assert list(tmp_path.iterdir()) == []


def test_without_data_a_precision_that_is_no_type_of_weights_is_described(tmp_path, capsys):
    flags = ["--problem=wmt_ende_tokens_8k", "--model=transformer", "--hparams_set=transformer_tiny", "--dry_run"]
    flags += [f"--data_dir={tmp_path}/data", f"--output_dir={tmp_path}/run", "--hparams=precision=tensorfloat32"]
    assert trainer.main(["t2t-trainer", *flags]) == 0
    assert re.search(r"^parameters: [\d,]+; tensorfloat32 on CPU:0$", capsys.readouterr().err, re.M)


def test_batch_sizes_are_in_the_unit_of_the_problem(tiny_run, tmp_path, capsys):
    flags = [f"--output_dir={tmp_path}/run", "--hparams=batch_size=16,train_steps=5", "--dry_run"]
    images = ["--problem=image_mnist_t10k", "--model=xception", "--hparams_set=xception_mnist"]
    assert trainer.main(["t2t-trainer", *images, f"--data_dir={tmp_path}/data", *flags]) == 0
    assert "changed hparams: batch_size=16 examples (was 64), train_steps=5 (was 1000)\n" in capsys.readouterr().err
    flags[1] = "--hparams=decode_batch_size=8"
    assert trainer.main(["t2t-trainer", *tiny_run.train_flags, *flags]) == 0
    said = capsys.readouterr().err
    assert "decode_batch_size=8 (was " in said
    assert " batch_size=256 padded tokens per side (was " in said
    assert "batch_size=256 padded tokens per side per replica per step" in said
