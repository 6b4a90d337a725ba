"""Manifests, and the raw text that is stored with dev and test examples if it differs from the decoded ids."""

import json
import shutil

import numpy as np
import pytest

from t2t.data.generation.generate import generate
from t2t.data.generation.problem_settings import check_matches, declared_by, settings_of
from t2t.data.manifest import FORMAT, Manifest, load_encoders, read_manifest
from t2t.data.reading.reader import SplitReader
from t2t.problems.text_problems import Text2Text
from tests.errors import refused
from tests.sealed_files import edited


@pytest.fixture
def folder(digits_folder, tmp_path):
    """A copy that a test may damage."""
    return shutil.copytree(digits_folder, tmp_path / "digits")


def test_manifest_says_what_the_folder_holds(digits_folder):
    manifest = read_manifest(digits_folder)
    assert (manifest.format, manifest.problem, manifest.seed) == (FORMAT, "digits", 7)
    assert manifest.spec.targets.vocab_size == 13  # ten digits, padding, end of sequence, unknown
    train = manifest.split("train")
    assert (train.examples, [shard.examples for shard in train.shards]) == (200, [60, 60, 60, 20])
    assert train.shards[3].values["inputs"].name == "train-00003-of-00004.inputs.values.npy"
    assert train.shards[3].offsets["targets"].name == "train-00003-of-00004.targets.offsets.npy"
    assert train.columns["inputs"].longest == 21
    named = {f.name for split in manifest.splits.values() for shard in split.shards for f in shard.files()}
    named |= {v.file for v in manifest.vocabularies.values()} | {"manifest.json"}
    assert named == {path.name for path in digits_folder.iterdir()}
    with refused("'test'", "digits", "train", "dev"):
        manifest.split("test")
    encoders = load_encoders(digits_folder, manifest)
    assert encoders["inputs"] is encoders["targets"]
    assert manifest.vocabularies["inputs"].file == "vocab.shared.token.tokens"
    assert encoders["inputs"].decode([4, 3, 1]) == "1 0"


def test_folder_without_manifest_is_not_data(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with refused(folder, "t2t-datagen"):
            read_manifest(folder)
    (tmp_path / "manifest.json").mkdir()
    with refused(tmp_path / "manifest.json:", "--data_dir"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff", b"{}", b'{"format": 1, "splits": 3}', b'{"format": "x"}']
)
def test_damaged_manifest_is_named(folder, content):
    (folder / "manifest.json").write_bytes(content)
    with refused("manifest.json", "t2t-datagen"):
        read_manifest(folder)


def test_a_missing_part_of_a_manifest_and_a_newer_format_are_named(folder):
    with edited(folder / "manifest.json") as plain:
        del plain["splits"]["train"]["shards"][0]["values"]
    with refused("manifest.json", "`values`", "`$.splits[...].shards[0]`"):
        read_manifest(folder)
    (folder / "manifest.json").write_text(json.dumps({"format": FORMAT + 1, "written_by": "9.0", "news": 1}))
    with refused(FORMAT + 1, FORMAT, 9.0):
        read_manifest(folder)


@pytest.mark.parametrize("content", [b"changed", b"\xff\xfe", None])
def test_exchanged_vocabulary_is_noticed(folder, content):
    path = folder / "vocab.shared.token.tokens"
    path.unlink()
    if content:
        path.write_bytes(content)
    with refused(path.name):
        load_encoders(folder, read_manifest(folder))


def test_matching_names_every_difference(digits_folder, digits_class):
    manifest = read_manifest(digits_folder)
    check_matches(manifest, digits_folder, digits_class())
    check_matches(manifest, digits_folder, digits_class(), seed=7)
    with refused("seed", 8, 7, "--data_dir"):
        check_matches(manifest, digits_folder, digits_class(), seed=8)
    with refused("vocab_size", 99, 8192):
        check_matches(manifest, digits_folder, digits_class(vocab_size=99))
    other = digits_class()
    other.name, other.vocab_kind = "letters", "byte"
    with refused("problem", "'letters'", "'digits'", "vocab_kind", "'byte'", "'token'"):
        check_matches(manifest, digits_folder, other)


@pytest.mark.parametrize(("name", "value", "asked"), [
    ("splits", ("train", "dev", "test"), ["'test'"]),
    ("sizes", {"train": 5, "dev": 30}, ["5", "200"]),
    ("vocab_sample_bytes", 7, [7, 40000000]),
    ("sizes", {str(n): n for n in range(99)}, ["99", "sha256", "200"]),
])  # fmt: skip
def test_whatever_a_problem_declares_decides_its_data(digits_folder, digits_class, name, value, asked):
    problem = digits_class()
    setattr(problem, name, value)
    manifest = read_manifest(digits_folder)
    with refused(name, *asked, "--data_dir"):
        check_matches(manifest, digits_folder, problem)
    check_matches(manifest, digits_folder, problem, is_known=True)  # a run accepts the data that it was trained on
    settings = []
    for first in (0, 1):  # another list of words is another setting
        problem.vocabulary = tuple(str(n) for n in range(first, first + 50))
        settings.append(settings_of(problem))
    assert settings[0]["vocabulary"].startswith("50 entries, sha256 ")
    assert settings[0] != settings[1]


def test_what_is_not_of_the_data_and_what_one_side_does_not_know_may_change(folder, digits_class):
    with edited(folder / "manifest.json") as plain:
        del plain["declared"]["sizes"]
    problem = digits_class()
    problem.metrics, problem.chunk_size, problem.finishes = ("accuracy",), 3, True
    problem.made_of = object()
    problem.sizes, problem.news = {"train": 1, "dev": 1}, 3
    check_matches(read_manifest(folder), folder, problem)
    problem = digits_class()
    problem.target_language = "zh"
    check_matches(read_manifest(folder), folder, problem)
    with edited(folder / "manifest.json") as plain:
        plain["declared"]["target_language"] = "ja"
    with refused("target_language", "'zh'", "'ja'"):
        check_matches(read_manifest(folder), folder, problem)
    with edited(folder / "manifest.json") as plain:
        del plain["declared"]  # as data of the first versions
    problem.vocab_sample_bytes = 3
    check_matches(read_manifest(folder), folder, problem)
    problem.splits = ("train",)
    with refused("splits", "'dev'"):
        check_matches(read_manifest(folder), folder, problem)


def test_plain_values_are_declared_and_nothing_else(digits_class):
    problem = digits_class()
    problem.sections, problem.kinds = {"dev": range(3), 4: ("a", None)}, {"b", "a"}
    problem.code, problem.mixed = len, {"a": [len]}
    declared = declared_by(problem)
    assert declared["sections"] == {"dev": [0, 1, 2], "4": ["a", None]}
    assert declared["kinds"] == ["a", "b"]
    assert declared["text_features"] == ["inputs", "targets"]
    assert not {"code", "mixed", "name", "metrics", "options", "encoders", "vocab_kind"} & set(declared)
    assert json.loads(json.dumps(declared)) == declared


# === Raw text ===
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


def readers(problem, folder_of_texts, **options):
    manifest = generate(problem, folder_of_texts, folder_of_texts, workers=1, **options)
    assert manifest == read_manifest(folder_of_texts / "three")
    return {split: SplitReader(folder_of_texts / "three", manifest, split) for split in manifest.splits}


@pytest.fixture(scope="module")
def folder_of_texts(tmp_path_factory):
    folder_of_texts = tmp_path_factory.mktemp("texts")
    problem = ThreeSplits(dev=[("1", text) for text in ODD], test=[("1", "2"), ("x", "3"), ("4", "4")])
    problem.chunk_size = 3
    readers(problem, folder_of_texts, most_examples=2)
    return folder_of_texts / "three"


def test_the_text_is_kept_of_the_features_that_lose_some(folder_of_texts):
    manifest = read_manifest(folder_of_texts)
    opened = {split: SplitReader(folder_of_texts, manifest, split) for split in manifest.splits}
    assert opened["dev"].texts("targets") == ODD
    assert opened["dev"].texts("targets", 3) == ODD[:3]
    assert opened["dev"].texts("inputs") is None
    assert opened["test"].texts("inputs") == ["1", "x", "4"]
    assert opened["test"].texts("targets") is None
    assert opened["train"].texts("targets") is None
    names = {path.name for path in folder_of_texts.glob("*.texts.jsonl")}
    assert names == {"dev.targets.texts.jsonl", "test.inputs.texts.jsonl"}
    assert (folder_of_texts / "test.inputs.texts.jsonl").read_text() == '"1"\n"x"\n"4"\n'


def test_vocabularies_that_lose_nothing_keep_no_text(tmp_path):
    opened = readers(ThreeSplits(dev=[("1", text) for text in ODD], test=[("1", "2")], vocab_kind="byte"), tmp_path)
    assert [reader.texts(side) for reader in opened.values() for side in ("inputs", "targets")] == [None] * 6
    assert list((tmp_path / "three").glob("*.jsonl")) == []
    assert "texts" not in (tmp_path / "three" / "manifest.json").read_text()


def test_texts_are_part_of_the_manifest_and_its_checks(folder_of_texts, tmp_path):
    manifest = read_manifest(folder_of_texts)
    assert Manifest.from_dict(json.loads(manifest.to_json())) == manifest
    copy = shutil.copytree(folder_of_texts, tmp_path / "three")
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
