import gzip
import json
import random
from pathlib import Path

import pytest

from t2t.errors import UserError
from t2t.problems.base import Source
from t2t.problems.text_files import Text2TextFiles


@pytest.fixture
def files(tmp_path):
    paths = {}
    for split, count in (("train", 3), ("dev", 2), ("test", 1)):
        for side in ("source", "target"):
            path = tmp_path / f"{split}.{side}"
            path.write_text("".join(f"{side} {split} {i}\n" for i in range(count)))
            paths[f"{split}_{side}"] = str(path)
    return paths


def samples(problem, split):
    problem.name = "text2text_files"
    return [(s["inputs"], s["targets"]) for s in problem.generate_samples(split, Source(Path("/"), random.Random(0)))]


def without(files, *left_out):
    return {key: path for key, path in files.items() if not key.startswith(left_out)}


def test_reads_the_files_that_the_options_name(files):
    Path(files["dev_target"]).write_bytes(gzip.compress(b"zwei\ndrei\n"))
    problem = Text2TextFiles(**files, source_language="en", target_language="de")
    assert problem.splits == ("train", "dev", "test")
    assert samples(problem, "train") == [(f"source train {i}", f"target train {i}") for i in range(3)]
    assert samples(problem, "dev") == [("source dev 0", "zwei"), ("source dev 1", "drei")]
    assert (problem.source_language, problem.target_language) == ("en", "de")


def test_a_test_set_is_optional(files):
    problem = Text2TextFiles(**without(files, "test"))
    assert problem.splits == ("train", "dev")
    with pytest.raises(UserError, match="split 'test': text2text_files has train, dev"):
        samples(problem, "test")


def test_options_are_remembered_as_json_with_absolute_paths(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    relative = without(files, "test") | {"train_source": "train.source", "dev_source": "~/dev.source"}
    options = json.loads(json.dumps(Text2TextFiles(**relative, vocab_size=300).options.changed()))
    assert options == without(files, "test") | {"vocab_size": 300}
    monkeypatch.chdir("/")
    assert len(samples(Text2TextFiles(**options), "train")) == 3


def test_its_options_that_are_files_are_known(files):
    assert set(Text2TextFiles(**files).options.file_names()) == {*files, "vocab_file", "train_scores"}


@pytest.mark.parametrize(
    ("left_out", "missing"),
    [
        ("train_target", "--train_target not given"),
        ("dev", "--dev_source, --dev_target not given"),
        ("test_source", "--test_source not given"),
        (("train", "dev"), "--train_source, --train_target, --dev_source, --dev_target not given"),
    ],
)
def test_flags_that_are_missing_are_named(files, left_out, missing):
    left_out = (left_out,) if isinstance(left_out, str) else left_out
    with pytest.raises(UserError) as raised:
        Text2TextFiles(**without(files, *left_out))
    assert str(raised.value).startswith(f"text2text_files: {missing}; found --")
    assert "it needs --train_source=FILE, --train_target=FILE, --dev_source=FILE, --dev_target=FILE" in str(
        raised.value
    )


def test_without_any_flag_it_can_be_listed_but_not_generated():
    problem = Text2TextFiles()
    assert problem.splits == ("train", "dev")
    assert problem.requirements().startswith("--train_source=FILE, --train_target=FILE")
    with pytest.raises(
        UserError, match=r"--train_source, .* not given; no file was named; it needs --train_source=FILE"
    ):
        samples(problem, "train")


def test_missing_files_are_named_together(files):
    Path(files["train_source"]).unlink()
    Path(files["test_target"]).unlink()
    with pytest.raises(UserError) as raised:
        samples(Text2TextFiles(**files), "dev")
    assert str(raised.value) == (
        f"text2text_files: there is no such file: --train_source={files['train_source']}, "
        f"--test_target={files['test_target']}; check the paths"
    )


def test_unequal_files_are_named(files):
    Path(files["train_source"]).write_text("1\n2\n3\n4\n")
    with pytest.raises(UserError, match=r"train\.source has 4 lines and .*train\.target has 3"):
        samples(Text2TextFiles(**files), "train")


def test_vocabulary_is_learnt_from_both_sides(files):
    problem = Text2TextFiles(**files, vocab_kind="token")
    encoders = problem.build_encoders(Source(Path("/"), random.Random(0)))
    assert encoders["inputs"] is encoders["targets"]
    assert sorted(encoders["inputs"].piece(i) for i in range(3, 9)) == ["0", "1", "2", "source", "target", "train"]
