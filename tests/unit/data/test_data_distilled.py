"""Distilled data: only the training targets change, everything else is byte for byte the same."""

import dataclasses
import json
import os

import pytest

from t2t.data.generation.distilled import find_distilled, write_distilled
from t2t.data.generation.generate import generate
from t2t.data.manifest import MANIFEST_NAME, Distillation, Manifest, read_manifest
from t2t.data.reading.reader import SplitReader
from tests.errors import refused
from tests.generated import examples_of

HOW = Distillation(teacher={"step": 7, "fingerprint": "abc"}, data="def", n_best=1, search={"beam_size": 4})
COUNTED = dataclasses.replace(HOW, references={"empty": 67})
OWN = 3
"""Every OWN-th example keeps its target."""


def targets_of(reader, window=70):
    """Targets of n % 10 for example n, None for every OWN-th, in windows that differ from the shards."""
    rows = [None if n % OWN == 0 else [3 + n % 10, 1] for n in range(len(reader))]
    return [rows[first : first + window] for first in range(0, len(rows), window)]


@pytest.fixture
def distilled(digits_folder, digits_train, tmp_path):
    folder = tmp_path / "digits"
    write_distilled(folder, digits_folder, read_manifest(digits_folder), targets_of(digits_train), COUNTED)
    return folder


def test_targets_are_those_given_and_inputs_as_they_were(distilled, digits_train):
    manifest = read_manifest(distilled)
    reader = SplitReader(distilled, manifest, "train")
    reader.verify()
    before, after = examples_of(digits_train), examples_of(reader)
    given = [targets for rows in targets_of(digits_train) for targets in rows]
    assert after == [(inputs, new or own) for (inputs, own), new in zip(before, given, strict=True)]
    totals, lengths = manifest.splits["train"].columns["targets"], [len(targets) for _, targets in after]
    assert (totals.items, totals.longest) == (sum(lengths), max(lengths))
    assert manifest.distilled == COUNTED
    assert Manifest.from_dict(json.loads(manifest.to_json())) == manifest


def test_other_splits_and_vocabularies_are_the_same_files(distilled, digits_folder):
    before, after = read_manifest(digits_folder), read_manifest(distilled)
    assert "distilled" not in before.to_dict(), "data of other versions keeps its fingerprint"
    assert after.splits["dev"] == before.splits["dev"]
    assert after.vocabularies == before.vocabularies
    names = {file.name for file in before.splits["dev"].files()} | {v.file for v in before.vocabularies.values()}
    for name in names:
        assert (distilled / name).read_bytes() == (digits_folder / name).read_bytes()
    kept = {name: getattr(before, name) for name in ("problem", "settings", "declared", "options", "seed", "spec")}
    assert kept == {name: getattr(after, name) for name in kept}


def test_the_same_is_found_again_and_anything_else_is_refused(distilled, digits_folder, tmp_path):
    assert find_distilled(tmp_path / "nothing", HOW) is None
    assert find_distilled(distilled, HOW).distilled == COUNTED
    other = dataclasses.replace(HOW, n_best=2)
    (tmp_path / "strange").mkdir()
    for folder in (distilled, digits_folder, tmp_path / "strange"):
        with refused(folder, "--distilled_data_dir"):
            find_distilled(folder, other)


def test_generating_keeps_it_and_says_what_it_is(distilled, digits_class, log_lines):
    before = (distilled / MANIFEST_NAME).read_bytes()
    generate(digits_class(), distilled.parent, distilled.parent / "tmp", seed=7, workers=1)
    assert (distilled / MANIFEST_NAME).read_bytes() == before
    assert "distilled" in log_lines.text


def test_a_failure_leaves_nothing(digits_folder, tmp_path):
    def broken():
        yield [[4, 1]] * 100
        raise OSError

    with pytest.raises(OSError):
        write_distilled(tmp_path / "digits", digits_folder, read_manifest(digits_folder), broken(), HOW)
    assert os.listdir(tmp_path) == []
