"""`t2t-import`: models of other toolkits are imported, decoded and fine-tuned on the command line."""

import json
import re

import numpy as np
import pytest

import t2t
from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.cli import datagen, decoder, exporter, importer, trainer
from t2t.layers.sinusoids import sinusoids
from t2t.text.subword import SubwordEncoder
from tests.in_process import call
from tests.readme import ROOT, block, blocks, succeed
from tests.reference import fairseq, language_models, marian, marian_native
from tests.reference import tensor2tensor as theirs
from tests.reference.encoder_decoder import SOURCE, TARGET, Network
from tests.reference.token_toolkits import OPENNMT_TF, SPECIAL, write_opennmt_py, write_opennmt_tf, write_sockeye


def write_corpus(folder):
    for split in ("train", "dev"):
        for side, suffix in (("source", "src"), ("target", "tgt")):
            (folder / f"{split}.{suffix}").write_text("\n".join(marian.CORPUS[side] * 4) + "\n")
    pairs = zip(marian.CORPUS["source"], marian.CORPUS["target"], strict=True)
    (folder / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))


def walk(name, folder, train_steps=""):
    """Runs a block of docs/importing.md, with few updates."""
    text = block(f"import-{name}", page=ROOT / "docs/importing.md")
    succeed(text.replace("--train_steps=2000", f"--train_steps={train_steps}"), folder)


def lines_of(path):
    return path.read_text().splitlines()


def step_of(run):
    return CheckpointStore(run / "checkpoints").load().step


@pytest.mark.slow  # that a run of Tensor2Tensor goes on with its optimizer
def test_from_their_files_to_training_on(tmp_path, tiny_run):
    sources, targets = tiny_run.lines("train")
    run = tmp_path / "run"
    vocabulary = tmp_path / "vocab.digits.64.subwords"
    encoder = SubwordEncoder.build([*sources, *targets], 64)
    vocabulary.write_bytes(encoder.to_bytes())
    values = theirs.hparams(theirs.OLD, batch_size=128)
    theirs.write_run(tmp_path / "theirs", values, theirs.random_variables(theirs.OLD, values, encoder.vocab_size))
    flags = ["--problem=text2text_files", f"--vocab_file={vocabulary}"]
    printed = call(importer, *flags, t2t_dir=tmp_path / "theirs", output_dir=run).out
    assert "problem text2text_files, model transformer, update 1234, with Adam's moments" in printed
    assert "not needed: beta1_power, beta2_power, global_step, losses_avg/problem_0/total_loss " in printed
    (tmp_path / "in").write_text("1 2 3\n\n9\n")
    files = {"decode_from_file": tmp_path / "in", "decode_to_file": tmp_path / "out"}
    call(decoder, "--decode_extra_length=2", output_dir=run, **files)
    assert len((tmp_path / "out").read_text().split("\n")) == 4
    call(datagen, *flags, *tiny_run.raw_flags, data_dir=tmp_path / "data")
    train = ["--train_steps=1236", "--eval_steps=0", "--worker_cpu=1"]
    assert "resuming" in call(trainer, *train, output_dir=run, data_dir=tmp_path / "data").err
    after = CheckpointStore(run / "checkpoints").load()
    assert after.step == int(after.optimizer["adam/iteration"]) == 1236


@pytest.mark.exhaustive  # the commands of the page, with few updates; those of two other toolkits are only slow
def test_the_walk_through_of_a_marian_translator(tmp_path):
    marian.write_model(tmp_path / "opus-mt-en-de")
    write_corpus(tmp_path)
    walk("marian", tmp_path, "6 --local_eval_frequency=3")
    assert step_of(tmp_path / "imported") == 6
    count = len(marian.CORPUS["source"])
    assert [len(lines_of(tmp_path / f"{name}.tgt")) for name in ("before", "after")] == [count * 4] * 2
    assert len(lines_of(tmp_path / "scores.txt")) == count
    assert list((tmp_path / "exported").rglob("model.bin"))
    run, files = tmp_path / "imported", {"decode_from_file": tmp_path / "dev.src"}
    call(decoder, "--decode_method=greedy", output_dir=run, **files, decode_to_file=tmp_path / "greedy.tgt")
    assert (tmp_path / "graphs.tgt").read_text() == (tmp_path / "greedy.tgt").read_text()
    printed = call(exporter, output_dir=run, export_dir=tmp_path / "served").out
    assert re.search(r"serving_default: (\d+) of \1 outputs are those of the run", printed)


@pytest.mark.slow  # that the page's commands import fairseq's two vocabularies, and train on
def test_the_walk_through_of_a_fairseq_translator(tmp_path, monkeypatch):
    fairseq.write_model(tmp_path / "fairseq_en_de", monkeypatch)
    (tmp_path / "test.src").write_text("the dog runs\ncat\n\n")
    for split in ("train", "dev"):
        (tmp_path / f"{split}.src").write_text("the dog runs\nthe house\n" * 9)
        (tmp_path / f"{split}.tgt").write_text("der Hund\nder\n" * 9)
    walk("fairseq", tmp_path, "3 --eval_steps=0")
    assert len((tmp_path / "test.tgt").read_text().split("\n")) == 4
    assert step_of(tmp_path / "imported") == 3
    kinds = sorted(path.name for path in (tmp_path / "imported/vocab").iterdir())
    assert kinds == ["vocab.inputs.bpe.bpe", "vocab.targets.bpe.bpe"]


@pytest.mark.slow  # that a model of Marian itself comes back unchanged
def test_the_walk_through_of_marians_own_translator_and_back(tmp_path):
    values = marian_native.settings([len(marian_native.WORDS)] * 2)
    arrays = marian_native.random_arrays(values)
    marian_native.write_model(tmp_path / "marian_en_de", values, arrays)
    marian_native.write_vocabulary(tmp_path / "marian_en_de/vocab.yml", marian_native.WORDS)
    (tmp_path / "dev.src").write_text("the dog runs\na small house\n")
    walk("marian-native", tmp_path)
    assert len((tmp_path / "dev.tgt").read_text().split("\n")) == 3
    with np.load(tmp_path / "back/model.npz") as archive:  # row 0 is padding, the others are unchanged
        for name, array in arrays.items():
            rows = archive[name].T[1:].T if name.endswith("logit_out_b") else archive[name]
            np.testing.assert_array_equal(rows[1:] if name == "Wemb" else rows, array)


@pytest.mark.exhaustive  # the commands of the page with the languages of NLLB, also in the script beside graphs
def test_the_walk_through_of_nllb(tmp_path):
    language_models.write_model(tmp_path / "nllb-200-distilled-600M", "nllb")
    write_corpus(tmp_path)
    walk("nllb", tmp_path, "6 --local_eval_frequency=3")
    assert step_of(tmp_path / "imported") == 6
    count = len(marian.CORPUS["source"])
    assert [len(lines_of(tmp_path / name)) for name in ("before.tgt", "back.src")] == [count * 4] * 2
    assert len(lines_of(tmp_path / "scores.txt")) == count
    translator = t2t.load(tmp_path / "imported", target_language="deu_Latn")
    (expected,) = translator.translate(["the small dog"], decode_method="greedy")[0]
    found = succeed("echo the small dog | python exported/translate.py", tmp_path)
    assert found.stdout.rstrip("\n") == expected.text, found.stderr


@pytest.mark.slow  # that languages reach adapters, their export, and the README of that
@pytest.mark.parametrize("kind", ["m2m", "mbart"])
def test_a_model_with_languages_is_adapted_and_exported(tmp_path, kind):
    languages = {"source_language": language_models.english(kind), "target_language": language_models.german(kind)}
    flags = [f"--{name}={language}" for name, language in languages.items()]
    language_models.write_model(tmp_path / "model", kind)
    write_corpus(tmp_path)
    run, data = tmp_path / "run", f"--data_dir={tmp_path / 'data'}"
    call(importer, "--from=huggingface", *flags, model_dir=tmp_path / "model", output_dir=run)
    sides = [("source", "src"), ("target", "tgt")]
    raw = [f"--{split}_{side}={tmp_path / split}.{suffix}" for split in ("train", "dev") for side, suffix in sides]
    (vocabulary,) = (run / "vocab").glob("*.pieces")
    problem = ["--problem=text2text_files", f"--vocab_file={vocabulary}", *flags, data]
    call(datagen, *problem, *raw)
    # Adapters need the hparams of the network; for mBART they include the language that outputs begin with.
    overrides = RunDir.open(run).record.overrides
    call(
        trainer, data, f"--output_dir={tmp_path / 'adapted'}", f"--warm_start_from={run}", "--model=transformer_bart",
        f"--hparams_set=transformer_{kind}", "--problem=text2text_files", f"--hparams={overrides},lora_rank=2",
        "--train_steps=3", "--eval_steps=0", "--worker_cpu=1", *flags,
    )  # fmt: skip
    adapted = t2t.load(tmp_path / "adapted")
    assert adapted.problem.languages.marks() == t2t.load(run).problem.languages.marks()
    lines = tmp_path / "lines"
    lines.write_text("\n".join(marian.CORPUS["source"][:4]) + "\n")
    export = {"output_dir": tmp_path / "adapted", "parity_file": lines, "export_dir": tmp_path / "fast"}
    call(exporter, "--data_dir=", "--format=ctranslate2", **export)
    # The README's example gives the same output as the run, apart from beam search.
    (shown,) = [one.text for one in blocks(tmp_path / "fast/README.md") if one.language == "python"]
    printed = succeed(re.sub(r"beam_size=\d+", "beam_size=1", shown), tmp_path / "fast", "python").stdout
    text = re.search(r"source.encode\('(.*?)'\)", shown)[1]
    ((best,),) = adapted.translate([text], decode_method="greedy")
    assert printed.rstrip("\n") == best.text


@pytest.mark.slow  # that the page's commands import a model of CTranslate2
def test_the_walk_through_of_a_model_of_ctranslate2(tmp_path):
    theirs = pytest.importorskip("tests.reference.ctranslate2", exc_type=ImportError)
    marian.learn_vocabulary(tmp_path)
    tokens = ["<blank>", "<s>", *json.loads((tmp_path / "vocab.json").read_text())]
    spec = theirs.random_spec(tokens, tokens, tied=True, encodings=sinusoids(theirs.POSITIONS, theirs.WIDTH))
    theirs.write(spec, tmp_path / "ende_ct2")
    (tmp_path / "dev.src").write_text("\n".join(marian.CORPUS["source"]) + "\n")
    walk("ctranslate2", tmp_path)
    assert len((tmp_path / "dev.out").read_text().splitlines()) == len(marian.CORPUS["source"])


@pytest.mark.slow  # that the page's commands import models of tokens
@pytest.mark.parametrize("toolkit", ["opennmt", "opennmt_tf", "sockeye"])
def test_the_walk_through_of_models_of_tokens(tmp_path, monkeypatch, toolkit):
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
    walk(toolkit, tmp_path)
    outputs = lines_of(tmp_path / "dev.out")
    assert len(outputs) == 3
    assert {word for line in outputs for word in line.split()} <= {*TARGET, "<unk>", "<blank>", "<row_0>"}
