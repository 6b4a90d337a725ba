"""`t2t-import`: models of other toolkits are imported, decoded and fine-tuned on the command line."""

import json
import re

import numpy as np
import pytest

import t2t
from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.cli import datagen, decoder, exporter, importer, trainer
from t2t.layers.positions import sinusoids
from t2t.text.subword import SubwordEncoder
from tests.readme import ROOT, block, blocks, execute
from tests.reference import fairseq, language_models, marian, marian_native
from tests.reference import tensor2tensor as theirs
from tests.reference.encoder_decoder import SOURCE, TARGET, Network
from tests.reference.token_toolkits import OPENNMT_TF, SPECIAL, write_opennmt_py, write_opennmt_tf, write_sockeye

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


@pytest.mark.exhaustive  # those of fairseq's and of Marian's own translators are not
def test_the_walk_through_of_a_marian_translator(tmp_path, capsys):
    """The commands of docs/importing.md, with few updates of a small model."""
    marian.write_model(tmp_path / "opus-mt-en-de")
    write_corpus(tmp_path)
    shown = block("import-marian", page=ROOT / "docs/importing.md")
    commands = shown.replace("--train_steps=2000", "--train_steps=6 --local_eval_frequency=3")
    done = execute("bash", commands, tmp_path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert CheckpointStore(tmp_path / "imported/checkpoints").load().step == 6
    before, after = ((tmp_path / f"{name}.tgt").read_text().splitlines() for name in ("before", "after"))
    assert len(before) == len(after) == len(marian.CORPUS["source"]) * 4
    assert len((tmp_path / "scores.txt").read_text().splitlines()) == len(marian.CORPUS["source"])
    assert list((tmp_path / "exported").rglob("model.bin"))
    files = [f"--decode_from_file={tmp_path}/dev.src", f"--decode_to_file={tmp_path}/greedy.tgt"]
    run = f"--output_dir={tmp_path / 'imported'}"
    assert decoder.main(["t2t-decoder", run, "--decode_method=greedy", *files]) == 0
    assert (tmp_path / "graphs.tgt").read_text() == (tmp_path / "greedy.tgt").read_text()
    asked = ["t2t-exporter", run, f"--export_dir={tmp_path / 'served'}"]
    assert exporter.main(asked) == 0
    assert re.search(r"serving_default: (\d+) of \1 outputs are those of the run", capsys.readouterr().out)


def test_the_walk_through_of_a_fairseq_translator(tmp_path, monkeypatch):
    fairseq.write_model(tmp_path / "fairseq_en_de", monkeypatch)
    (tmp_path / "test.src").write_text("the dog runs\ncat\n\n")
    for split in ("train", "dev"):
        (tmp_path / f"{split}.src").write_text("the dog runs\nthe house\n" * 9)
        (tmp_path / f"{split}.tgt").write_text("der Hund\nder\n" * 9)
    shown = block("import-fairseq", page=ROOT / "docs/importing.md")
    done = execute("bash", shown.replace("--train_steps=2000", "--train_steps=3 --eval_steps=0"), tmp_path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert len((tmp_path / "test.tgt").read_text().split("\n")) == 4
    assert CheckpointStore(tmp_path / "imported/checkpoints").load().step == 3
    kinds = sorted(path.name for path in (tmp_path / "imported/vocab").iterdir())
    assert kinds == ["vocab.inputs.bpe.bpe", "vocab.targets.bpe.bpe"]


def test_the_walk_through_of_marians_own_translator_and_back(tmp_path):
    values = marian_native.settings([len(marian_native.WORDS)] * 2)
    arrays = marian_native.random_arrays(values)
    marian_native.write_model(tmp_path / "marian_en_de", values, arrays)
    marian_native.write_vocabulary(tmp_path / "marian_en_de/vocab.yml", marian_native.WORDS)
    (tmp_path / "dev.src").write_text("the dog runs\na small house\n")
    done = execute("bash", block("import-marian-native", page=ROOT / "docs/importing.md"), tmp_path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert len((tmp_path / "dev.tgt").read_text().split("\n")) == 3
    with np.load(tmp_path / "back/model.npz") as archive:  # row 0 is padding, the others are unchanged
        for name, array in arrays.items():
            rows = archive[name].T[1:].T if name.endswith("logit_out_b") else archive[name]
            np.testing.assert_array_equal(rows[1:] if name == "Wemb" else rows, array)


def write_corpus(folder):
    for split in ("train", "dev"):
        for side, suffix in (("source", "src"), ("target", "tgt")):
            (folder / f"{split}.{suffix}").write_text("\n".join(marian.CORPUS[side] * 4) + "\n")
    pairs = zip(marian.CORPUS["source"], marian.CORPUS["target"], strict=True)
    (folder / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))


@pytest.mark.exhaustive
def test_the_walk_through_of_nllb(tmp_path):
    """The commands of docs/importing.md, with few updates of a small model."""
    language_models.write_model(tmp_path / "nllb-200-distilled-600M", "nllb")
    write_corpus(tmp_path)
    shown = block("import-nllb", page=ROOT / "docs/importing.md")
    commands = shown.replace("--train_steps=2000", "--train_steps=6 --local_eval_frequency=3")
    done = execute("bash", commands, tmp_path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert CheckpointStore(tmp_path / "imported/checkpoints").load().step == 6
    lines = len(marian.CORPUS["source"]) * 4
    for name in ("before.tgt", "back.src"):
        assert len((tmp_path / name).read_text().splitlines()) == lines
    assert len((tmp_path / "scores.txt").read_text().splitlines()) == len(marian.CORPUS["source"])
    # The script next to the graphs handles the run's languages.
    translator = t2t.load(tmp_path / "imported", target_language="deu_Latn")
    (expected,) = translator.translate(["the small dog"], decode_method="greedy")[0]
    found = execute("bash", "echo the small dog | python exported/translate.py", tmp_path)
    assert found.stdout.rstrip("\n") == expected.text, found.stderr


@pytest.mark.parametrize("kind", ["m2m", "mbart"])
def test_a_model_with_languages_is_adapted_and_exported(tmp_path, kind):
    languages = {"source_language": language_models.english(kind), "target_language": language_models.german(kind)}
    flags = [f"--{name}={language}" for name, language in languages.items()]
    language_models.write_model(tmp_path / "model", kind)
    write_corpus(tmp_path)
    run, data = tmp_path / "run", f"--data_dir={tmp_path / 'data'}"
    asked = ["t2t-import", "--from=huggingface", f"--model_dir={tmp_path / 'model'}", f"--output_dir={run}", *flags]
    assert importer.main(asked) == 0
    sides = [("source", "src"), ("target", "tgt")]
    raw = [f"--{split}_{side}={tmp_path / split}.{suffix}" for split in ("train", "dev") for side, suffix in sides]
    (vocabulary,) = (run / "vocab").glob("*.pieces")
    problem = ["--problem=text2text_files", f"--vocab_file={vocabulary}", *flags, data]
    assert datagen.main(["t2t-datagen", *problem, *raw]) == 0
    # Adapters need the hparams of the network; for mBART they include the language that outputs begin with.
    overrides = RunDir.open(run).record.overrides
    train = [
        "t2t-trainer", data, f"--output_dir={tmp_path / 'adapted'}", f"--warm_start_from={run}",
        "--model=transformer_bart", f"--hparams_set={'transformer_mbart' if kind == 'mbart' else 'transformer_m2m'}",
        "--problem=text2text_files", f"--hparams={overrides},lora_rank=2", "--train_steps=3", "--eval_steps=0",
        "--worker_cpu=1", *flags,
    ]  # fmt: skip
    assert trainer.main(train) == 0
    adapted = t2t.load(tmp_path / "adapted")
    assert adapted.problem.language_marks() == t2t.load(run).problem.language_marks()
    lines = tmp_path / "lines"
    lines.write_text("\n".join(marian.CORPUS["source"][:4]) + "\n")
    export = ["t2t-exporter", f"--output_dir={tmp_path / 'adapted'}", f"--parity_file={lines}", "--data_dir="]
    assert exporter.main([*export, f"--export_dir={tmp_path / 'fast'}", "--format=ctranslate2"]) == 0
    # The README's example gives the same output as the run, apart from beam search.
    (shown,) = [one.text for one in blocks(tmp_path / "fast/README.md") if one.language == "python"]
    done = execute("python", re.sub(r"beam_size=\d+", "beam_size=1", shown), tmp_path)
    assert done.returncode == 0, done.stderr
    text = re.search(r"source.encode\('(.*?)'\)", shown)[1]
    ((best,),) = adapted.translate([text], decode_method="greedy")
    assert done.stdout.rstrip("\n") == best.text


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


@pytest.mark.parametrize("page_block", ["import-opennmt", "import-opennmt_tf", "import-sockeye"])
def test_the_walk_through_of_models_of_tokens(tmp_path, monkeypatch, page_block):
    toolkit = page_block.removeprefix("import-")
    special = {"opennmt": SPECIAL, "opennmt_tf": OPENNMT_TF}.get(toolkit, ["<pad>", "<unk>", "<s>", "</s>"])
    tokens = ([*special, *SOURCE], [*special, *TARGET])
    sizes = tuple(len(words) + (toolkit == "opennmt_tf") for words in tokens)
    network = Network(sizes, attention_bias=False, positions="halves")
    if toolkit == "opennmt":
        write_opennmt_py(tmp_path / "ende_onmt", network, monkeypatch, tokens)
    elif toolkit == "opennmt_tf":
        description = 'from opennmt import models\nmodel = lambda: models.get_model_from_catalog("TransformerTiny")\n'
        write_opennmt_tf(tmp_path / "ende_tf", network, tokens, description)
    else:
        write_sockeye(tmp_path / "ende_sockeye", network, monkeypatch, tokens)
    (tmp_path / "dev.tok").write_text("the old dog runs\n\na zebra sees\n")
    done = execute("bash", block(page_block, page=ROOT / "docs/importing.md"), tmp_path)
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
