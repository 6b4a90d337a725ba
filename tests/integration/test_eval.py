"""`t2t-eval`: metrics of a trained run, compared with single pairs, sacreBLEU, raw text and another engine."""

import json
import math
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from sacrebleu.metrics import BLEU

import t2t
from t2t.checkpoints.dev_outputs import read_dev_outputs
from t2t.checkpoints.run_dir import RunDir
from t2t.cli import datagen, decoder, trainer
from t2t.cli import eval as eval_command
from t2t.text.words import TokenEncoder
from tests.builders import edited
from tests.errors import refused
from tests.in_process import call, refuses


@pytest.fixture(scope="module")
def translator(tiny_run):
    return t2t.load(tiny_run.output_dir)


def evaluated(*flags, **named):
    out = call(eval_command, *flags, **named).out
    return out, dict(re.findall(r"^(\S+) = ([-\d.]+)", out, re.MULTILINE))


def test_teacher_forced_figures_and_scores_of_decodes(tiny_run, translator):
    """Also: training has kept the outputs of its evaluations, the last of which is of these weights."""
    out, found = evaluated(*tiny_run.flags)
    sources, targets = tiny_run.lines("dev")
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


def test_the_function_gives_what_the_command_prints(tiny_run):
    folders = {"output_dir": tiny_run.output_dir, "data_dir": tiny_run.data_dir}
    shown = call(eval_command, **folders, checkpoint=20, decode_beam_size=2, eval_steps=1).out
    (found,) = t2t.evaluate(**folders, checkpoint=20, hparams={"beam_size": 2}, eval_steps=1).values()
    assert f"{found}\n" == shown
    assert (found.step, found.of) == (20, 12)
    assert {"teacher_forced/loss", "teacher_forced/accuracy"} <= found.figures.keys()
    for wrong, about in (
        ({"split": "tset"}, ("tset", "dev")),
        ({"hparams": {"hidden_size": 3}}, ("hidden_size=3",)),
        ({"checkpoint": 21}, ("21",)),
    ):
        with refused(*about):
            t2t.evaluate(**folders, **wrong)


@pytest.mark.slow  # that schedules, checkpoints and devices lead to the same figures
def test_the_trainers_schedule_and_several_devices_say_the_same_and_an_earlier_checkpoint_another(tiny_run):
    out, last = evaluated(*tiny_run.flags)
    assert call(trainer, *tiny_run.train_flags, "--schedule=evaluate", output_dir=tiny_run.output_dir).out == out
    assert evaluated(*tiny_run.flags, worker_cpu=2) == (out, last)
    early, first = evaluated(*tiny_run.flags, checkpoint=20, decode_beam_size=1)
    assert "step-00000020 (20 updates)" in early
    assert first["teacher_forced/loss"] != last["teacher_forced/loss"]


def test_data_of_another_vocabulary_is_refused_by_name(tiny_run, tmp_path):
    data_dir = shutil.copytree(tiny_run.data_dir, tmp_path / "data")
    folder = data_dir / "text2text_files"
    with edited(folder / "manifest.json") as manifest:
        vocabulary = manifest["vocabularies"]["inputs"]
        content = (folder / vocabulary["file"]).read_text().splitlines()
        other = TokenEncoder([*content[4:], content[3]])  # the words in another order
        other.save(folder / vocabulary["file"])
        for entry in manifest["vocabularies"].values():
            entry["fingerprint"] = other.fingerprint
    about = f"{folder} {tiny_run.output_dir} {other.fingerprint[:12]} --data_dir"
    refuses(eval_command, about, output_dir=tiny_run.output_dir, data_dir=data_dir)


def test_where_a_run_was_trained_from_is_said(tiny_run, tmp_path):
    """Its data is elsewhere than asked: --data_dir is read, never guessed."""
    about = f"{tmp_path}/text2text_files {tiny_run.output_dir} --data_dir={tiny_run.data_dir}"
    refuses(eval_command, about, output_dir=tiny_run.output_dir, data_dir=tmp_path)


# === `--engine`: the commands and the Python functions decode a run with CTranslate2 ===
@pytest.fixture
def run(tiny_run, tmp_path):
    """A copy of the run in which conversions may be stored."""
    return shutil.copytree(tiny_run.output_dir, tmp_path / "run")


def test_files_and_evaluation_by_ctranslate2_have_the_outputs_of_tensorflow(run, tiny_run, translator, tmp_path):
    sources, references = tiny_run.lines("dev")
    expected = [best.text for (best,) in translator.translate(sources, decode_method="greedy")]
    flags, target = {"output_dir": run, "engine": "ctranslate2", "decode_method": "greedy"}, tmp_path / "out"
    call(decoder, **flags, decode_from_file=tiny_run.raw_dir / "dev.source", decode_to_file=target)
    assert target.read_text().splitlines() == expected
    printed, bleu = call(eval_command, **flags, data_dir=tiny_run.data_dir).out, BLEU()
    assert f"\n{bleu.corpus_score(expected, [references])} | {bleu.get_signature()}\n" in printed
    assert len([folder for folder in (run / "cache/ctranslate2/text2text_files").iterdir() if folder.is_dir()]) == 1


def test_comparing_engines_prints_both_scores_and_how_far_apart_they_are(run, tiny_run, translator):
    flags = {"output_dir": run, "data_dir": tiny_run.data_dir, "engine": "ctranslate2", "compute_type": "int8"}
    head, *scores, same, apart = call(eval_command, "--compare_engine", **flags).out.splitlines()
    sources, references = tiny_run.lines("dev")
    assert head == f"{len(sources)} of {len(sources)} dev examples of text2text_files, step-00000040 (40 updates)"
    slow, fast = translator, t2t.load(run, engine="ctranslate2", compute_type="int8")
    outputs = [[found[0] for found in one.translate(sources)] for one in (fast, slow)]
    expected = [
        f"{one.engine.name}: {BLEU().corpus_score([best.text for best in found], [references])}"
        for one, found in zip((fast, slow), outputs, strict=True)
    ]
    assert [line.split(" | ")[0] for line in scores if "BLEU" in line] == expected
    identical = sum(ours.ids == theirs.ids for ours, theirs in zip(*outputs, strict=True))
    assert same == f"the same output: {identical} of {len(sources)} inputs, {identical / len(sources):.1%}"
    pairs = [(source, best.text) for source, best in zip(sources, outputs[1], strict=True)]
    lengths = [len(ids) + 1 for ids in slow.encode_targets([target for _, target in pairs])]
    differences = np.abs(np.subtract(fast.score(pairs), slow.score(pairs))) / lengths
    printed = re.fullmatch(r"difference of log-probabilities, nats per token: mean (\S+), largest (\S+)", apart)
    np.testing.assert_allclose(list(map(float, printed.groups())), [differences.mean(), differences.max()], rtol=0.05)
    assert differences.max() > 1e-5, "int8 rounds"


FRESH = """
import json, sys
import t2t
from t2t.cli import decoder
from t2t.serving.models import Question, ServedModel

run, source, pairs, data, out = sys.argv[1:]
flags = ["t2t-decoder", f"--output_dir={run}", "--engine=ctranslate2"]
assert decoder.main([*flags, f"--decode_from_file={source}", f"--decode_to_file={out}/outputs"]) == 0
assert decoder.main([*flags, f"--score_file={pairs}", f"--decode_to_file={out}/scores"]) == 0
assert decoder.main([*flags, "--decode_split=dev", f"--data_dir={data}", f"--decode_to_file={out}/split"]) == 0
translator = t2t.load(run, engine="ctranslate2")
outputs = [found[0].text for found in translator.translate(["1 2 3", "4"])]
(answer,) = ServedModel("digits", translator, 40).answer([Question("1 2 3")])
assert answer.hypotheses[0].text == outputs[0]
before = sorted({"tensorflow", "keras"} & set(sys.modules))
sampled = [found[0].text for found in translator.translate(["1 2 3"], decode_method="sample", seed=3)]
maps = sorted(translator.attend("1 2 3").maps)
after = sorted({"tensorflow", "keras"} & set(sys.modules))
print(json.dumps([outputs, before, sampled, maps, after, translator.fingerprint()]))
"""


@pytest.mark.slow  # that a fresh process loads TensorFlow only for what CTranslate2 cannot do
def test_a_run_that_has_been_converted_is_used_without_tensorflow_until_something_needs_it(run, tiny_run, tmp_path):
    source, pairs, flags = tiny_run.raw_dir / "train.source", tmp_path / "pairs", [f"--output_dir={run}"]
    pairs.write_text("1 2 3\t3 2 1\n4\t4\n")
    modes = {
        "outputs": [f"--decode_from_file={source}"],
        "scores": [f"--score_file={pairs}"],
        "split": ["--decode_split=dev", f"--data_dir={tiny_run.data_dir}"],
    }
    for name, mode in modes.items():
        call(decoder, *flags, "--engine=ctranslate2", *mode, decode_to_file=tmp_path / name)
    (tmp_path / "fresh").mkdir()
    arguments = [run, source, pairs, tiny_run.data_dir, tmp_path / "fresh"]
    done = subprocess.run([sys.executable, "-c", FRESH, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    outputs, before, sampled, maps, after, fingerprint = json.loads(done.stdout.splitlines()[-1])
    assert (before, after) == ([], ["keras", "tensorflow"])
    for name in modes:
        assert (tmp_path / "fresh" / name).read_bytes() == (tmp_path / name).read_bytes() != b""
    slow, fast = t2t.load(run), t2t.load(run, engine="ctranslate2")
    shutil.rmtree(run / "cache")
    converted = t2t.load(run, engine="ctranslate2")  # converts the model again
    assert outputs == [found[0].text for found in fast.translate(["1 2 3", "4"])]
    assert sampled == [found[0].text for found in slow.translate(["1 2 3"], decode_method="sample", seed=3)]
    assert maps == ["decoder", "encoder", "encoder_decoder"]
    assert fingerprint == converted.fingerprint() != slow.fingerprint(), "an interrupted file goes on either way"


BY_DEFAULT = """
import json, sys
import t2t
from t2t.cli import decoder

run, source, target = sys.argv[1:]
found = t2t.load(run).translate(["1 2 3", "4"], beam_size=1)
assert decoder.main(["t2t-decoder", f"--output_dir={run}", "--decode_beam_size=1", f"--decode_from_file={source}",
                     f"--decode_to_file={target}"]) == 0
print(json.dumps([[best.text for best, in found], sorted({"tensorflow", "keras"} & set(sys.modules))]))
"""


def test_after_its_first_use_a_run_is_decoded_without_tensorflow_by_default(
    run, tiny_run, translator, tmp_path, monkeypatch
):
    """Also one that was shipped without its conversion, but with the answers of its model."""
    monkeypatch.delenv("T2T_ENGINE")
    texts, source, target = ["1 2 3", "4"], tiny_run.raw_dir / "dev.source", tmp_path / "out"
    expected = [best.text for (best,) in translator.translate(texts, beam_size=1)]
    of_file = [best.text for (best,) in translator.translate(tiny_run.lines("dev")[0], beam_size=1)]
    assert [best.text for (best,) in t2t.load(run).translate(texts, beam_size=1)] == expected
    kept = run / "cache/ctranslate2/text2text_files"
    for _ in ("with the conversion", "with the answers alone"):
        arguments = [sys.executable, "-c", BY_DEFAULT, str(run), str(source), str(target)]
        done = subprocess.run(arguments, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == [expected, []]
        assert len(list(kept.glob("*/model.bin"))) == 1
        assert target.read_text().splitlines() == of_file
        target.unlink()
        for path in kept.iterdir():
            if not path.name.endswith(".reference.json"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


# === Outputs are scored against the raw text of a split, including words that are not in the vocabulary ===
STRANGE = 3
"""Number of references with an unknown word; one more reference has a double space."""


@pytest.mark.slow  # that outputs are compared with the raw text that ids have lost
def test_an_unknown_word_is_never_right(tiny_run, tmp_path):
    """On data whose dev references are the tiny run's outputs, partly modified."""
    raw = shutil.copytree(tiny_run.raw_dir, tmp_path / "raw")
    sources = (raw / "dev.source").read_text().splitlines()
    outputs = [best.text for (best,) in t2t.load(tiny_run.output_dir).translate(sources)]
    targets = [f"{text} zehn" if n < STRANGE else text for n, text in enumerate(outputs)]
    targets[-1] = "1  2"
    (raw / "dev.target").write_text("".join(f"{target}\n" for target in targets))
    flags = [flag for flag in tiny_run.train_flags if re.match(r"--(\w+_source|\w+_target|problem|vocab_kind)=", flag)]
    call(datagen, *(flag.replace(str(tiny_run.raw_dir), str(raw)) for flag in flags), data_dir=tmp_path / "data")
    with edited(tmp_path / "data/text2text_files/manifest.json") as plain:  # as if made from the run's raw files
        plain.update(json.loads(json.dumps(plain).replace(str(raw), str(tiny_run.raw_dir))))
    run, bleu = {"output_dir": tiny_run.output_dir, "data_dir": tmp_path / "data"}, BLEU()
    out = call(eval_command, **run).out
    assert f"\n{bleu.corpus_score(outputs, [targets])} | {bleu.get_signature()}\n" in out
    right = sum(output == target for output, target in zip(outputs, targets, strict=True))
    assert right == len(targets) - STRANGE - 1
    accuracy = re.search(r"^accuracy_per_sequence = (\S+)", out, re.MULTILINE)[1]
    assert float(accuracy) == pytest.approx(right / len(targets), abs=1e-4)
    out = call(eval_command, "--eval_steps=1", **run).out
    count = int(re.match(r"(\d+) of 12 dev examples", out)[1])
    assert f"\n{BLEU().corpus_score(outputs[:count], [targets[:count]])} |" in out
    warned = call(eval_command, "--split=train", "--eval_steps=1", **run).err
    assert "warning: train: references are read back from ids, " in warned
