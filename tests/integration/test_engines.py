"""`--engine`: the commands and the Python functions decode a run with CTranslate2."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from sacrebleu.metrics import BLEU

import t2t
from t2t.cli import decoder
from t2t.cli import eval as eval_command
from tests.errors import refused
from tests.in_process import call, refuses


@pytest.fixture
def run(tiny_run, tmp_path):
    """A copy of the run in which conversions may be stored."""
    return shutil.copytree(tiny_run.output_dir, tmp_path / "run")


def test_files_and_evaluation_have_the_same_outputs(run, tiny_run, tmp_path):
    found = []
    for engine in ("tensorflow", "ctranslate2"):
        flags, target = {"output_dir": run, "engine": engine, "decode_method": "greedy"}, tmp_path / engine
        call(decoder, **flags, decode_from_file=tiny_run.raw_dir / "train.source", decode_to_file=target)
        printed = call(eval_command, **flags, data_dir=tiny_run.data_dir).out
        found.append((target.read_text(), re.findall(r"^(?:accuracy|BLEU|bleu).*", printed, re.MULTILINE)))
    assert found[0] == found[1]
    assert found[0][0].count("\n") == 300
    assert found[0][1]
    assert len([folder for folder in (run / "cache/ctranslate2/text2text_files").iterdir() if folder.is_dir()]) == 1


def test_comparing_engines_prints_both_scores_and_how_far_apart_they_are(run, tiny_run):
    flags = {"output_dir": run, "data_dir": tiny_run.data_dir, "engine": "ctranslate2", "compute_type": "int8"}
    head, *scores, same, apart = call(eval_command, "--compare_engine", **flags).out.splitlines()
    sources, references = ((tiny_run.raw_dir / f"dev.{side}").read_text().splitlines() for side in ("source", "target"))
    assert head == f"{len(sources)} of {len(sources)} dev examples of text2text_files, step-00000040 (40 updates)"
    slow, fast = t2t.load(run), t2t.load(run, engine="ctranslate2", compute_type="int8")
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


def test_wrong_pairs_of_flags_are_refused(run):
    for engine in ("tensorflow", "auto"):
        about = f"--compare_engine --engine={engine} --engine=ctranslate2"
        refuses(eval_command, about, "--compare_engine", output_dir=run, engine=engine)
    refuses(decoder, "--compute_type=int8 --engine=tensorflow", output_dir=run, compute_type="int8")
    with refused("compute_type=int8", "engine=tensorflow"):
        t2t.load(run, compute_type="int8")


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
