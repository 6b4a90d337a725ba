"""`t2t-eval`: metrics of a trained run, compared with scores of single pairs and with sacreBLEU."""

import math
import re
import shutil

import pytest
from sacrebleu.metrics import BLEU

import t2t
from t2t.checkpoints.dev_outputs import read_dev_outputs
from t2t.checkpoints.run_dir import RunDir
from t2t.cli import decoder, trainer
from t2t.cli import eval as eval_command
from t2t.text.token import TokenEncoder
from tests.builders import edited


def lines(path):
    return path.read_text().splitlines()


@pytest.fixture(scope="module")
def translator(tiny_run):
    return t2t.load(tiny_run.output_dir)


def evaluated(capsys, *flags):
    assert eval_command.main(["t2t-eval", *flags]) == 0
    out = capsys.readouterr().out
    return out, dict(re.findall(r"^(\S+) = ([-\d.]+)", out, re.MULTILINE))


@pytest.mark.parametrize("split", ["dev", pytest.param("test", marks=pytest.mark.exhaustive)])
def test_teacher_forced_figures_and_scores_of_decodes(tiny_run, translator, capsys, split):
    out, found = evaluated(capsys, *tiny_run.flags, f"--split={split}")
    sources, targets = (lines(tiny_run.raw_dir / f"{split}.{side}") for side in ("source", "target"))
    assert out.startswith(
        f"{len(sources)} of {len(sources)} {split} examples of text2text_files, step-00000040 (40 updates)\n"
    )

    tokens = sum(len(target.split()) + 1 for target in targets)
    loss = -sum(translator.score(list(zip(sources, targets, strict=True)))) / tokens
    assert float(found["teacher_forced/loss"]) == pytest.approx(loss, abs=1e-4)
    assert float(found["teacher_forced/perplexity"]) == pytest.approx(math.exp(loss), abs=1e-3)

    hypotheses = [best.text for (best,) in translator.translate(sources)]
    bleu = BLEU()
    assert f"\n{bleu.corpus_score(hypotheses, [targets])} | {bleu.get_signature()}\n" in out
    right = sum(hypothesis == target for hypothesis, target in zip(hypotheses, targets, strict=True))
    assert float(found["accuracy_per_sequence"]) == pytest.approx(right / len(targets), abs=1e-4)
    labelled = {"loss", "perplexity", "neg_log_perplexity", "accuracy", "accuracy_per_sequence"}
    assert found.keys() == {f"teacher_forced/{name}" for name in labelled} | {"BLEU", "accuracy_per_sequence"}


@pytest.mark.exhaustive
def test_training_keeps_what_it_wrote_for_the_dev_split(tiny_run, translator):
    """The last evaluation is of the weights that are loaded here."""
    first, last = read_dev_outputs(RunDir.open(tiny_run.output_dir).dev_outputs_file)
    assert (first.step, last.step) == (20, 40)
    assert set(last.sources) <= set(lines(tiny_run.raw_dir / "dev.source"))
    assert [" ".join(reversed(source.split())) for source in last.sources] == list(last.references)
    assert list(last.outputs) == [found[0].text for found in translator.translate(last.sources)]
    assert first.outputs != last.outputs


@pytest.mark.slow
def test_the_trainers_schedule_evaluate_says_the_same(tiny_run, capsys):
    out, _ = evaluated(capsys, *tiny_run.flags)
    flags = [*tiny_run.train_flags, f"--output_dir={tiny_run.output_dir}", "--schedule=evaluate"]
    assert trainer.main(["t2t-trainer", *flags]) == 0
    assert capsys.readouterr().out == out


@pytest.mark.slow
def test_another_checkpoint_and_another_search(tiny_run, capsys):
    out, first = evaluated(capsys, *tiny_run.flags, "--checkpoint=20", "--decode_beam_size=1")
    assert "step-00000020 (20 updates)" in out
    _, last = evaluated(capsys, *tiny_run.flags)
    assert float(first["teacher_forced/loss"]) > float(last["teacher_forced/loss"]), "twenty updates have helped"


def test_data_of_another_vocabulary_is_refused_by_name(tiny_run, tmp_path, capsys):
    data_dir = shutil.copytree(tiny_run.data_dir, tmp_path / "data")
    folder = data_dir / "text2text_files"
    with edited(folder / "manifest.json") as manifest:
        vocabulary = manifest["vocabularies"]["inputs"]
        content = lines(folder / vocabulary["file"])
        other = TokenEncoder([*content[4:], content[3]])  # the words in another order
        other.save(folder / vocabulary["file"])
        for entry in manifest["vocabularies"].values():
            entry["fingerprint"] = other.fingerprint
    assert eval_command.main(["t2t-eval", f"--output_dir={tiny_run.output_dir}", f"--data_dir={data_dir}"]) == 2
    err = capsys.readouterr().err
    assert f"the data in {folder} is of another vocabulary of inputs than the run in {tiny_run.output_dir}" in err
    assert f"the data token, fingerprint {other.fingerprint[:12]}; give the --data_dir that the run was" in err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--data_dir=/nowhere"], "no data of text2text_files in /nowhere; make it with t2t-datagen"),
        (["--problem=translate_ende_numbers", "--model=transformer", "--hparams_set=transformer_base"],
         "is another: --problem=translate_ende_numbers asked, text2text_files found; "
         "--hparams_set=transformer_base asked, transformer_tiny found; leave these flags out"),
        (["--checkpoint=30"], "checkpoint '30': there is none"),
        (["--decode_beam_size=0"], "flag --decode_beam_size=0: 0 is not an integer in the range [1, 10000]"),
        (["--t2t_usr_dir=/nowhere"], "--t2t_usr_dir=/nowhere: no such folder"),
    ],
)  # fmt: skip
def test_mistakes(tiny_run, flags, message, capsys):
    data = [] if flags[0].startswith("--data_dir") else [f"--data_dir={tiny_run.data_dir}"]
    assert eval_command.main(["t2t-eval", f"--output_dir={tiny_run.output_dir}", *data, *flags]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_several_devices_say_and_write_what_one_does(tiny_run, translator, tmp_path, capsys):
    several = "--worker_cpu=2"
    assert evaluated(capsys, *tiny_run.flags, several) == evaluated(capsys, *tiny_run.flags)
    source, small = tiny_run.raw_dir / "train.source", "--decode_batch_size=200"
    for name, *devices in [("one",), ("two", several)]:
        flags = [f"--decode_from_file={source}", f"--decode_to_file={tmp_path / name}", small, *devices]
        assert decoder.main(["t2t-decoder", f"--output_dir={tiny_run.output_dir}", *flags]) == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    pairs = [("1 2", "2 1"), ("3", "4")] * 99
    assert t2t.load(tiny_run.output_dir, worker_cpu=2).score(pairs) == translator.score(pairs)


def test_more_gpus_than_there_are(tiny_run, capsys):
    assert decoder.main(["t2t-decoder", f"--output_dir={tiny_run.output_dir}", "--worker_gpu=99"]) == 2
    assert "--worker_gpu=99: 0 GPUs are visible" in capsys.readouterr().err
