"""Outputs are scored against the raw text of a split, including words that are not in the vocabulary."""

import json
import re
import shutil

import pytest
from sacrebleu.metrics import BLEU

import t2t
from t2t.cli import datagen
from t2t.cli import eval as eval_command
from tests.builders import edited
from tests.in_process import call

pytestmark = pytest.mark.slow  # nothing quicker compares outputs with the raw text that ids have lost

STRANGE = 3
"""Number of references with an unknown word; one more reference has a double space."""


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
