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
from tests.in_process import call, refuses


def lines(path):
    return path.read_text().splitlines()


@pytest.fixture(scope="module")
def translator(tiny_run):
    return t2t.load(tiny_run.output_dir)


def evaluated(*flags, **named):
    out = call(eval_command, *flags, **named).out
    return out, dict(re.findall(r"^(\S+) = ([-\d.]+)", out, re.MULTILINE))


def test_teacher_forced_figures_and_scores_of_decodes(tiny_run, translator):
    """Also: training has kept the outputs of its evaluations, the last of which is of these weights."""
    out, found = evaluated(*tiny_run.flags)
    sources, targets = (lines(tiny_run.raw_dir / f"dev.{side}") for side in ("source", "target"))
    assert out.startswith("12 of 12 dev examples of text2text_files, step-00000040 (40 updates)\n")
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
    first, last = read_dev_outputs(RunDir.open(tiny_run.output_dir).dev_outputs_file)
    assert (first.step, last.step) == (20, 40)
    kept = set(zip(last.sources, last.references, last.outputs, strict=True))
    assert kept <= set(zip(sources, targets, hypotheses, strict=True))
    assert first.outputs != last.outputs


@pytest.mark.slow  # that schedules, checkpoints and devices lead to the same figures
def test_the_trainers_schedule_and_several_devices_say_the_same_and_an_earlier_checkpoint_another(tiny_run):
    out, last = evaluated(*tiny_run.flags)
    assert call(trainer, *tiny_run.train_flags, "--schedule=evaluate", output_dir=tiny_run.output_dir).out == out
    assert evaluated(*tiny_run.flags, worker_cpu=2) == (out, last)
    early, first = evaluated(*tiny_run.flags, checkpoint=20, decode_beam_size=1)
    assert "step-00000020 (20 updates)" in early
    assert first["teacher_forced/loss"] != last["teacher_forced/loss"]


@pytest.mark.slow  # that several devices decode and score the same
def test_several_devices_write_what_one_does(tiny_run, translator, tmp_path):
    source = tiny_run.raw_dir / "train.source"
    for name, devices in (("one", {}), ("two", {"worker_cpu": 2})):
        files = {"decode_from_file": source, "decode_to_file": tmp_path / name, "decode_batch_size": 200}
        call(decoder, output_dir=tiny_run.output_dir, **files, **devices)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    pairs = [("1 2", "2 1"), ("3", "4")] * 99
    assert t2t.load(tiny_run.output_dir, worker_cpu=2).score(pairs) == translator.score(pairs)


def test_data_of_another_vocabulary_is_refused_by_name(tiny_run, tmp_path):
    data_dir = shutil.copytree(tiny_run.data_dir, tmp_path / "data")
    folder = data_dir / "text2text_files"
    with edited(folder / "manifest.json") as manifest:
        vocabulary = manifest["vocabularies"]["inputs"]
        content = lines(folder / vocabulary["file"])
        other = TokenEncoder([*content[4:], content[3]])  # the words in another order
        other.save(folder / vocabulary["file"])
        for entry in manifest["vocabularies"].values():
            entry["fingerprint"] = other.fingerprint
    about = f"{folder} {tiny_run.output_dir} {other.fingerprint[:12]} --data_dir"
    refuses(eval_command, about, output_dir=tiny_run.output_dir, data_dir=data_dir)


@pytest.mark.parametrize(
    ("flags", "about"),
    [
        (["--problem=translate_ende_numbers", "--hparams_set=transformer_base"],
         "--problem=translate_ende_numbers text2text_files --hparams_set=transformer_base transformer_tiny"),
        (["--checkpoint=30"], "'30'"),
        (["--decode_beam_size=0"], "--decode_beam_size=0 10000"),
        (["--t2t_usr_dir=/nowhere"], "--t2t_usr_dir=/nowhere"),
    ],
)  # fmt: skip
def test_mistakes(tiny_run, flags, about):
    refuses(eval_command, about, *tiny_run.flags, *flags)
