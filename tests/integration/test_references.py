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

pytestmark = pytest.mark.slow

STRANGE = 3
"""Number of references with an unknown word; one more reference has a double space."""


@pytest.fixture(scope="module")
def strange(tiny_run, tmp_path_factory):
    """Data whose dev references are the tiny run's outputs, partly modified; returns flags, outputs and references."""
    folder = tmp_path_factory.mktemp("strange")
    raw = shutil.copytree(tiny_run.raw_dir, folder / "raw")
    sources = (raw / "dev.source").read_text().splitlines()
    outputs = [best.text for (best,) in t2t.load(tiny_run.output_dir).translate(sources)]
    targets = [f"{text} zehn" if n < STRANGE else text for n, text in enumerate(outputs)]
    targets[-1] = "1  2"
    (raw / "dev.target").write_text("".join(f"{target}\n" for target in targets))
    flags = [flag for flag in tiny_run.train_flags if re.match(r"--(\w+_source|\w+_target|problem|vocab_kind)=", flag)]
    flags = [flag.replace(str(tiny_run.raw_dir), str(raw)) for flag in flags]
    assert datagen.main(["t2t-datagen", *flags, f"--data_dir={folder}/data"]) == 0
    manifest = folder / "data" / "text2text_files" / "manifest.json"  # as if made from the run's raw files
    with edited(manifest) as plain:
        plain.update(json.loads(json.dumps(plain).replace(str(raw), str(tiny_run.raw_dir))))
    return [f"--output_dir={tiny_run.output_dir}", f"--data_dir={folder}/data"], outputs, targets


def test_an_unknown_word_is_never_right(strange, capsys):
    flags, outputs, targets = strange
    assert eval_command.main(["t2t-eval", *flags]) == 0
    out = capsys.readouterr().out
    bleu = BLEU()
    assert f"\n{bleu.corpus_score(outputs, [targets])} | {bleu.get_signature()}\n" in out
    right = sum(output == target for output, target in zip(outputs, targets, strict=True))
    assert right == len(targets) - STRANGE - 1
    assert float(re.search(r"^accuracy_per_sequence = (\S+)", out, re.MULTILINE)[1]) == pytest.approx(
        right / len(targets), abs=1e-4
    )


def test_a_part_of_the_split_is_scored_against_its_own_references(strange, capsys):
    flags, outputs, targets = strange
    assert eval_command.main(["t2t-eval", *flags, "--eval_steps=1"]) == 0
    out = capsys.readouterr().out
    count = int(re.match(r"(\d+) of 12 dev examples", out)[1])
    assert f"\n{BLEU().corpus_score(outputs[:count], [targets[:count]])} |" in out


def test_training_text_is_read_back_from_its_ids_and_that_is_said(strange, capsys):
    flags, _, _ = strange
    assert eval_command.main(["t2t-eval", *flags, "--split=train", "--eval_steps=1"]) == 0
    assert (
        "warning: train: references are read back from ids, so words that the vocabulary lacks count as equal\n"
        in capsys.readouterr().err
    )
