"""`t2t-import`: models that other toolkits left, decoded and trained on by the commands a user types."""

import json

import pytest

from t2t.checkpoints.store import CheckpointStore
from t2t.cli import datagen, decoder, exporter, importer, trainer
from t2t.layers.positions import sinusoids
from t2t.text.subword import SubwordEncoder
from tests.readme import ROOT, block, execute
from tests.reference import marian
from tests.reference import tensor2tensor as theirs
from tests.reference.encoder_decoder import SOURCE, TARGET, Network
from tests.reference.token_toolkits import SPECIAL, write_opennmt_py, write_sockeye

pytestmark = pytest.mark.slow


def test_from_their_files_to_training_on(tmp_path, tiny_run, capsys):
    raw = {side: (tiny_run.raw_dir / f"train.{side}").read_text().splitlines() for side in ("source", "target")}
    vocabulary = tmp_path / "vocab.digits.64.subwords"
    encoder = SubwordEncoder.build([*raw["source"], *raw["target"]], 64)
    vocabulary.write_bytes(encoder.to_bytes())
    values = theirs.hparams(theirs.OLD, batch_size=128)
    variables = theirs.random_variables(theirs.OLD, values, encoder.vocab_size)
    theirs.write_run(tmp_path / "theirs", values, variables)

    flags = ["--problem=text2text_files", f"--vocab_file={vocabulary}", f"--output_dir={tmp_path / 'run'}"]
    assert importer.main(["t2t-import", f"--t2t_dir={tmp_path / 'theirs'}", *flags]) == 0
    printed = capsys.readouterr().out
    assert "problem text2text_files, model transformer, update 1234, with Adam's moments" in printed
    assert (
        "not needed: beta1_power, beta2_power, global_step, losses_avg/problem_0/total_loss (counters and slots)"
        in printed
    )

    (tmp_path / "in").write_text("1 2 3\n\n9\n")
    run = f"--output_dir={tmp_path / 'run'}"
    files = [f"--decode_from_file={tmp_path / 'in'}", f"--decode_to_file={tmp_path / 'out'}"]
    assert decoder.main(["t2t-decoder", run, *files, "--decode_extra_length=2"]) == 0
    assert len((tmp_path / "out").read_text().split("\n")) == 4

    data = f"--data_dir={tmp_path / 'data'}"
    raw_flags = [f"--{split}_{side}={tiny_run.raw_dir}/{split}.{side}" for split in ("train", "dev") for side in raw]
    assert datagen.main(["t2t-datagen", *flags[:2], *raw_flags, data]) == 0
    train = ["t2t-trainer", run, data, "--train_steps=1236", "--eval_steps=0", "--worker_cpu=1"]
    assert trainer.main(train) == 0
    assert "resuming" in capsys.readouterr().err
    after = CheckpointStore(tmp_path / "run/checkpoints").load()
    assert after.step == int(after.optimizer["adam/iteration"]) == 1236


def test_flags_that_are_missing_or_lead_nowhere(tmp_path, capsys):
    assert importer.main(["t2t-import", "--output_dir=x"]) == 2
    assert "--model_dir, --vocab_file: not given" in capsys.readouterr().err
    asked = [f"--t2t_dir={tmp_path}", f"--vocab_file={tmp_path}/v", "--output_dir=x", "--problem=text2text_files"]
    assert importer.main(["t2t-import", *asked]) == 2
    assert f"vocabulary {tmp_path}/v: there is no such file" in capsys.readouterr().err
    asked[1] = f"--vocab_file={tmp_path}/v.subwords"
    (tmp_path / "v.subwords").write_bytes(SubwordEncoder.build(["a b", "b c"], 64).to_bytes())
    assert importer.main(["t2t-import", *asked]) == 2
    assert "no hparams.json there; name the output_dir of a Tensor2Tensor run" in capsys.readouterr().err
    assert importer.main(["t2t-import", f"--t2t_dir={tmp_path}/none", *asked[1:]]) == 2
    assert f"--model_dir={tmp_path}/none: no such folder" in capsys.readouterr().err


def test_the_walk_through_of_a_marian_translator(tmp_path, capsys):
    """The commands of docs/importing.md, with few updates of a small model."""
    marian.write_model(tmp_path / "opus-mt-en-de")
    for split in ("train", "dev"):
        for side, suffix in (("source", "src"), ("target", "tgt")):
            (tmp_path / f"{split}.{suffix}").write_text("\n".join(marian.CORPUS[side] * 4) + "\n")
    pairs = zip(marian.CORPUS["source"], marian.CORPUS["target"], strict=True)
    (tmp_path / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    shown = block("import-marian", page=ROOT / "docs/importing.md")
    commands = shown.replace("--train_steps=2000", "--train_steps=6 --local_eval_frequency=3")
    done = execute("bash", commands, tmp_path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert CheckpointStore(tmp_path / "imported/checkpoints").load().step == 6
    before, after = ((tmp_path / f"{name}.tgt").read_text().splitlines() for name in ("before", "after"))
    assert len(before) == len(after) == len(marian.CORPUS["source"]) * 4
    assert len((tmp_path / "scores.txt").read_text().splitlines()) == len(marian.CORPUS["source"])
    assert list((tmp_path / "exported").rglob("model.bin"))
    asked = ["t2t-exporter", f"--output_dir={tmp_path / 'imported'}", f"--export_dir={tmp_path / 'served'}"]
    assert exporter.main(asked) == 2
    assert "a vocabulary of kind piece_table has no TensorFlow operations" in capsys.readouterr().err
    assert not (tmp_path / "served").exists()


def test_the_walk_through_of_a_model_of_ctranslate2(tmp_path, capsys):
    theirs = pytest.importorskip("tests.reference.ctranslate2", exc_type=ImportError)
    marian.learn_vocabulary(tmp_path)
    tokens = ["<blank>", "<s>", *json.loads((tmp_path / "vocab.json").read_text())]
    spec = theirs.random_spec(tokens, tokens, tied=True, encodings=sinusoids(theirs.POSITIONS, theirs.WIDTH))
    theirs.write(spec, tmp_path / "ende_ct2")
    (tmp_path / "dev.src").write_text("\n".join(marian.CORPUS["source"]) + "\n")
    done = execute("bash", block("import-ctranslate2", page=ROOT / "docs/importing.md"), tmp_path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert len((tmp_path / "dev.out").read_text().splitlines()) == len(marian.CORPUS["source"])
    asked = ["t2t-import", "--from=ctranslate2", f"--model_dir={tmp_path}/ende_ct2", f"--output_dir={tmp_path}/other"]
    assert importer.main([*asked, "--sentencepiece_model=a,b,c"]) == 2
    assert "3 files are named; name one, or one for each side" in capsys.readouterr().err
    assert importer.main([*asked, f"--sentencepiece_model={tmp_path}/none.spm"]) == 2
    assert f"there is no file {tmp_path}/none.spm; name the model of the tokens" in capsys.readouterr().err


@pytest.mark.parametrize("toolkit", ["opennmt", "sockeye"])
def test_the_walk_through_of_models_of_tokens(tmp_path, monkeypatch, toolkit):
    special = SPECIAL if toolkit == "opennmt" else ["<pad>", "<unk>", "<s>", "</s>"]
    tokens = ([*special, *SOURCE], [*special, *TARGET])
    network = Network(tuple(map(len, tokens)), attention_bias=False, positions="halves")
    if toolkit == "opennmt":
        write_opennmt_py(tmp_path / "ende_onmt", network, monkeypatch, tokens)
    else:
        write_sockeye(tmp_path / "ende_sockeye", network, monkeypatch, tokens)
    (tmp_path / "dev.tok").write_text("the old dog runs\n\na zebra sees\n")
    done = execute("bash", block(f"import-{toolkit}", page=ROOT / "docs/importing.md"), tmp_path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    outputs = (tmp_path / "dev.out").read_text().splitlines()
    assert len(outputs) == 3
    assert {word for line in outputs for word in line.split()} <= {*TARGET, "<unk>", "<blank>", "<row_0>"}


def test_flags_of_another_format_are_refused(tmp_path, capsys):
    asked = ["t2t-import", "--from=huggingface", f"--model_dir={tmp_path}", f"--output_dir={tmp_path}/run"]
    assert importer.main([*asked, "--step=3"]) == 2
    assert "--step: --from=huggingface does not read it; leave it out" in capsys.readouterr().err
    assert importer.main([*asked[:2], *asked[3:]]) == 2
    assert "--model_dir: not given; see --help" in capsys.readouterr().err
