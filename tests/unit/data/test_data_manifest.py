import json
import shutil

import pytest

from t2t.data.manifest import FORMAT, Manifest, load_encoders, read_manifest
from t2t.data.problem_settings import check_matches, declared_by, settings_of
from t2t.errors import UserError
from tests.builders import edited


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


def test_json_comes_back(digits_folder):
    manifest = read_manifest(digits_folder)
    assert Manifest.from_dict(json.loads(manifest.to_json())) == manifest


def test_shared_vocabulary_is_one_file_and_one_object(digits_folder):
    manifest = read_manifest(digits_folder)
    encoders = load_encoders(digits_folder, manifest)
    assert encoders["inputs"] is encoders["targets"]
    assert manifest.vocabularies["inputs"].file == "vocab.shared.token.tokens"
    assert encoders["inputs"].decode([4, 3, 1]) == "1 0"


def test_folder_without_manifest_is_not_data(tmp_path):
    with pytest.raises(UserError, match=r"no generated data in .*; generate the data first \(t2t-datagen, or"):
        read_manifest(tmp_path)
    with pytest.raises(UserError, match="no generated data in"):
        read_manifest(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff", b"{}", b'{"format": 1, "splits": 3}', b'{"format": "x"}']
)
def test_damaged_manifest_is_named(folder, content):
    (folder / "manifest.json").write_bytes(content)
    with pytest.raises(UserError, match=r"manifest\.json is damaged \(.+\); delete that folder and run t2t-datagen"):
        read_manifest(folder)


def test_manifest_with_a_missing_part_is_damaged(folder):
    with edited(folder / "manifest.json") as plain:
        del plain["splits"]["train"]["shards"][0]["values"]
    with pytest.raises(
        UserError,
        match=r"is damaged \(Object missing required field `values` - at `\$\.splits\[\.\.\.\]\.shards\[0\]`\)",
    ):
        read_manifest(folder)


def test_newer_format_is_refused(folder):
    (folder / "manifest.json").write_text(json.dumps({"format": FORMAT + 1, "written_by": "9.0", "news": 1}))
    with pytest.raises(
        UserError, match=rf"has format {FORMAT + 1}; .* up to {FORMAT}: use the t2t that wrote it \(9.0"
    ):
        read_manifest(folder)


def test_exchanged_vocabulary_is_noticed(folder):
    path = folder / "vocab.shared.token.tokens"
    path.write_bytes(path.read_bytes().replace(b"7", b"x"))
    with pytest.raises(UserError, match=r"vocab\.shared\.token\.tokens is not what was written"):
        load_encoders(folder, read_manifest(folder))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="is not what was written"):
        load_encoders(folder, read_manifest(folder))
    path.unlink()
    with pytest.raises(UserError, match=r"vocabulary .* is missing; delete that folder"):
        load_encoders(folder, read_manifest(folder))


def test_unknown_split_names_the_known(digits_folder):
    with pytest.raises(UserError, match="split 'test': the data of digits has train, dev; ask for one of these"):
        read_manifest(digits_folder).split("test")


def test_matching_names_every_difference(digits_folder, digits_class):
    manifest = read_manifest(digits_folder)
    check_matches(manifest, digits_folder, digits_class())
    check_matches(manifest, digits_folder, digits_class(), seed=7)
    with pytest.raises(
        UserError, match=r"made otherwise than asked \(seed: asked 8, found 7\); choose another --data_"
    ):
        check_matches(manifest, digits_folder, digits_class(), seed=8)
    with pytest.raises(UserError, match=r"\(vocab_size: asked 99, found 8192\)"):
        check_matches(manifest, digits_folder, digits_class(vocab_size=99))
    other = digits_class()
    other.name, other.vocab_kind = "letters", "byte"
    with pytest.raises(
        UserError, match=r"\(problem: asked 'letters', found 'digits'; vocab_kind: asked 'byte', found 'token'\)"
    ):
        check_matches(manifest, digits_folder, other)


def test_another_word_list_is_another_setting(digits_class):
    problem = digits_class()
    problem.vocabulary = tuple(str(n) for n in range(50))
    settings = settings_of(problem)
    assert settings["vocabulary"].startswith("50 entries, sha256 ")
    problem.vocabulary = tuple(str(n) for n in range(1, 51))
    assert settings_of(problem) != settings


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"splits": ("train", "dev", "test")}, r"splits: asked \['train', 'dev', 'test'\], found \['train', 'dev'\]"),
        ({"sizes": {"train": 5, "dev": 30}}, r"sizes: asked {'train': 5, 'dev': 30}, found {'train': 200, 'dev': 30}"),
        ({"vocab_sample_bytes": 7}, "vocab_sample_bytes: asked 7, found 40000000"),
        (
            {"sizes": {str(n): n for n in range(99)}},
            "sizes: asked '99 entries, sha256 [0-9a-f]{16}', found {'train': 200, 'dev': 30}",
        ),
    ],
)
def test_whatever_a_problem_declares_decides_its_data(digits_folder, digits_class, change, message):
    problem = digits_class()
    for name, value in change.items():
        setattr(problem, name, value)
    manifest = read_manifest(digits_folder)
    with pytest.raises(UserError, match=rf"made otherwise than asked \({message}\); choose another --data_dir"):
        check_matches(manifest, digits_folder, problem)
    check_matches(manifest, digits_folder, problem, is_known=True)  # a run accepts the data that it was trained on


def test_what_is_not_of_the_data_may_change(digits_folder, digits_class):
    problem = digits_class()
    problem.metrics, problem.chunk_size, problem.finishes = ("accuracy",), 3, True
    problem.made_of = object()
    check_matches(read_manifest(digits_folder), digits_folder, problem)


def test_a_setting_that_one_side_does_not_know_tells_nothing(folder, digits_class):
    with edited(folder / "manifest.json") as plain:
        del plain["declared"]["sizes"]
    problem = digits_class()
    problem.sizes, problem.news = {"train": 1, "dev": 1}, 3
    check_matches(read_manifest(folder), folder, problem)


def test_data_of_the_first_versions_loads(folder, digits_class):
    with edited(folder / "manifest.json") as plain:
        del plain["declared"]
    manifest, problem = read_manifest(folder), digits_class()
    problem.vocab_sample_bytes = 3
    check_matches(manifest, folder, problem)
    problem.splits = ("train",)
    with pytest.raises(UserError, match=r"\(splits: asked \['train'\], found \['train', 'dev'\]\)"):
        check_matches(manifest, folder, problem)


def test_a_language_can_be_given_to_data_without_one(folder, digits_class):
    problem = digits_class()
    problem.target_language = "zh"
    check_matches(read_manifest(folder), folder, problem)
    with edited(folder / "manifest.json") as plain:
        plain["declared"]["target_language"] = "ja"
    with pytest.raises(UserError, match=r"\(target_language: asked 'zh', found 'ja'\)"):
        check_matches(read_manifest(folder), folder, problem)


def test_plain_values_are_declared_and_nothing_else(digits_class):
    problem = digits_class()
    problem.sections, problem.kinds = {"dev": range(3), 4: ("a", None)}, {"b", "a"}
    problem.code, problem.mixed = len, {"a": [len]}
    declared = declared_by(problem)
    assert declared["sections"] == {"dev": [0, 1, 2], "4": ["a", None]}
    assert declared["kinds"] == ["a", "b"]
    assert declared["text_features"] == ["inputs", "targets"]
    assert not {"code", "mixed", "name", "metrics", "options", "encoders", "vocab_kind", "data_name"} & set(declared)
    assert json.loads(json.dumps(declared)) == declared
