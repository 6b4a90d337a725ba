"""Raw text is stored with dev and test examples only if it differs from the decoded ids."""

import json
import shutil

import numpy as np
import pytest

from t2t.data.generate import generate
from t2t.data.manifest import Manifest, read_manifest
from t2t.data.reader import SplitReader
from t2t.problems.text_problems import Text2Text
from tests.errors import refused

ODD = ["1 2", "1  2", "x 2", "", "1\n2", "\u2028", '"', "é\0"]
"""Texts; with a vocabulary of digits only those of digits separated by single spaces are decoded unchanged."""


class ThreeSplits(Text2Text):
    name = "three"
    vocabulary = tuple("0123456789")
    splits = ("train", "dev", "test")

    def __init__(self, dev=(), test=(), **options):
        super().__init__(**options)
        self.rows = {"train": [("1", "x x")], "dev": dev, "test": test}

    def generate_samples(self, split, source):
        yield from ({"inputs": inputs, "targets": targets} for inputs, targets in self.rows[split])


def readers(problem, folder, **options):
    manifest = generate(problem, folder, folder, workers=1, **options)
    assert manifest == read_manifest(folder / "three")
    return {split: SplitReader(folder / "three", manifest, split) for split in manifest.splits}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    problem = ThreeSplits(dev=[("1", text) for text in ODD], test=[("1", "2"), ("x", "3"), ("4", "4")])
    problem.chunk_size = 3
    readers(problem, folder, most_examples=2)
    return folder / "three"


def test_the_text_is_kept_of_the_features_that_lose_some(folder):
    manifest = read_manifest(folder)
    opened = {split: SplitReader(folder, manifest, split) for split in manifest.splits}
    assert opened["dev"].texts("targets") == ODD
    assert opened["dev"].texts("targets", 3) == ODD[:3]
    assert opened["dev"].texts("inputs") is None
    assert opened["test"].texts("inputs") == ["1", "x", "4"]
    assert opened["test"].texts("targets") is None
    assert opened["train"].texts("targets") is None
    names = {path.name for path in folder.glob("*.texts.jsonl")}
    assert names == {"dev.targets.texts.jsonl", "test.inputs.texts.jsonl"}
    assert (folder / "test.inputs.texts.jsonl").read_text() == '"1"\n"x"\n"4"\n'


def test_vocabularies_that_lose_nothing_keep_no_text(tmp_path):
    opened = readers(ThreeSplits(dev=[("1", text) for text in ODD], test=[("1", "2")], vocab_kind="byte"), tmp_path)
    assert [reader.texts(side) for reader in opened.values() for side in ("inputs", "targets")] == [None] * 6
    assert list((tmp_path / "three").glob("*.jsonl")) == []
    assert "texts" not in (tmp_path / "three" / "manifest.json").read_text()


def test_texts_are_part_of_the_manifest_and_its_checks(folder, tmp_path):
    manifest = read_manifest(folder)
    assert Manifest.from_dict(json.loads(manifest.to_json())) == manifest
    copy = shutil.copytree(folder, tmp_path / "three")
    path = copy / "dev.targets.texts.jsonl"
    assert path.name in {file.name for file in manifest.split("dev").files()}
    content = path.read_bytes()
    path.write_bytes(content.replace(b"x 2", b"y 2"))
    with refused(path.name):
        SplitReader(copy, manifest, "dev").verify()
    path.write_bytes(content[:-1])
    with refused(path.name, len(content), len(content) - 1):
        SplitReader(copy, manifest, "dev")
    path.unlink()
    with refused(path.name):
        SplitReader(copy, manifest, "dev")
    SplitReader(copy, manifest, "train").verify()


def test_a_problem_says_what_its_outputs_are_scored_against(tmp_path):
    class Shouted(ThreeSplits):
        """Decodes and compares targets with `+` in place of the spaces of its samples."""

        def decode_target(self, ids):
            return super().decode_target(ids).replace(" ", "+")

        def raw_text(self, sample, feature):
            text = super().raw_text(sample, feature)
            return text.replace(" ", "+") if feature == "targets" else text

    same = readers(Shouted(dev=[("1", "2 3")], test=[("1", "2 3")]), tmp_path / "same")
    assert same["dev"].texts("targets") is None
    lossy = readers(Shouted(dev=[("1", "2 x")], test=[("1", "2 3")]), tmp_path / "lossy")
    assert lossy["dev"].texts("targets") == ["2+x"]


def test_features_without_text_have_none(tmp_path):
    class Half(ThreeSplits):
        def raw_text(self, sample, feature):
            return None if sample["targets"] == "x" else sample[feature]

    opened = readers(Half(dev=[("1", "y"), ("1", "x")], test=[("1", "y")]), tmp_path)
    assert (opened["dev"].texts("targets"), opened["test"].texts("targets")) == (None, ["y"])
    assert len(opened["dev"]) == 2
    np.testing.assert_array_equal(opened["dev"].lengths("targets"), [2, 2])
