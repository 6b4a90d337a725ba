"""Problems of lines: one file for each split."""

import random

import pytest

from t2t.cli import datagen
from t2t.data.eval_batches import EvalBatches
from t2t.data.generate import generate
from t2t.data.manifest import read_manifest
from t2t.data.reader import SplitReader
from t2t.data.training_batches import TrainingBatches
from t2t.errors import UserError
from t2t.problems.base import Source
from t2t.runs.names import get_problem


@pytest.fixture
def files(tmp_path):
    """Returns options that name files with these contents."""

    def write(**contents):
        for split, content in contents.items():
            (tmp_path / split).write_text(content)
        return {f"{split}_file": str(tmp_path / split) for split in contents}

    return write


def test_classes_are_those_of_the_training_file(files, tmp_path):
    options = files(train="so so\tit is\ngood\tI like it\n\nbad\tno\t no\n", dev="good\tyes\n", test="bad\toh\n")
    problem = get_problem("classify_files", options | {"vocab_kind": "byte"})
    assert problem.splits == ("train", "dev", "test")
    source = Source(tmp_path, random.Random(0))
    samples = list(problem.generate_samples("train", source))
    assert [(s["targets"], s["inputs"]) for s in samples] == [
        ("so so", "it is"),
        ("good", "I like it"),
        ("bad", "no\t no"),
    ]
    problem.with_encoders(problem.build_encoders(source))
    assert [problem.decode_target(n) for n in range(3)] == ["bad", "good", "so so"]
    assert problem.spec().targets.vocab_size == 3
    assert [int(e["targets"]) for e in problem.encode_samples(samples)] == [2, 1, 0]
    assert problem.declared_spec().targets.kind == "label"


@pytest.mark.parametrize("empty", ["train", "dev"])
@pytest.mark.parametrize("content", ["", "\n \n"])
def test_a_file_without_lines_is_named(files, tmp_path, empty, content):
    options = files(**{"train": "good\tyes\n", "dev": "good\tyes\n", empty: content})
    with pytest.raises(UserError) as raised:
        generate(get_problem("classify_files", options | {"vocab_kind": "byte"}), tmp_path / "a", tmp_path, workers=1)
    assert str(raised.value) == (
        f"split '{empty}' of classify_files is empty: no example came out of --{empty}_file={tmp_path}/{empty}; check "
        f"the raw files"
    )


def test_wrong_lines_are_named(files, tmp_path):
    options = files(train="good\tyes\nbad\tno\n", dev="good\tyes\nfine\tperhaps\n")
    with pytest.raises(UserError) as raised:
        generate(get_problem("classify_files", options | {"vocab_kind": "byte"}), tmp_path / "a", tmp_path, workers=1)
    assert str(raised.value) == (
        f"{tmp_path}/dev, line 2, has class 'fine', which is none of the training file's (bad, good); a line is a "
        f"class, a TAB and a text; correct the file"
    )
    options = files(train="good yes\n", dev="good\tyes\n")
    with pytest.raises(UserError, match=r"train, line 1, has no TAB: 'good yes'; a line is a class, a TAB and a text"):
        generate(get_problem("classify_files", options | {"vocab_kind": "byte"}), tmp_path / "b", tmp_path, workers=1)
    options = files(train="\tyes\n", dev="good\tyes\n")
    with pytest.raises(UserError, match="train, line 1, has class ''; a line is"):
        generate(get_problem("classify_files", options | {"vocab_kind": "byte"}), tmp_path / "c", tmp_path, workers=1)


def test_files_that_are_not_given_or_not_there(files, tmp_path, capsys):
    with pytest.raises(UserError, match=r"ClassifyFiles: --dev_file not given; found --train_file=.*/train; it needs"):
        get_problem("classify_files", files(train="a\tb\n"))
    assert datagen.main(["t2t-datagen", "--problem=languagemodel_files", f"--data_dir={tmp_path}/data"]) == 2
    assert capsys.readouterr().err.endswith(
        "languagemodel_files: --train_file, --dev_file not given; no file was named; it needs --train_file=FILE, "
        "--dev_file=FILE, and if there is a test set --test_file=FILE; a line is a text\n"
    )
    flags = [f"--train_file={tmp_path}/x", f"--dev_file={tmp_path}/y", f"--data_dir={tmp_path}/data"]
    assert datagen.main(["t2t-datagen", "--problem=languagemodel_files", *flags]) == 2
    said = f"there is no such file: --train_file={tmp_path}/x, --dev_file={tmp_path}/y; check the paths"
    assert f"languagemodel_files: {said}" in capsys.readouterr().err


def test_a_language_model_reads_lines(files, tmp_path):
    options = files(train="one\n\n two three \n", dev="four\n")
    problem = get_problem("languagemodel_files", options)
    samples = problem.generate_samples("train", Source(tmp_path, random.Random(0)))
    assert [sample["targets"] for sample in samples] == ["one", "two three"]


def test_changed_files_are_noticed(files, tmp_path):
    options = files(train="a\tb\nc\td\n", dev="a\tb\n") | {"vocab_kind": "byte"}
    generate(get_problem("classify_files", options), tmp_path / "data", tmp_path, workers=1)
    files(train="a\tb\nc\te\n")
    with pytest.raises(UserError, match=r"was made when .*train held something else"):
        generate(get_problem("classify_files", options), tmp_path / "data", tmp_path, workers=1)


def test_long_text_of_a_class_is_kept_and_cut_when_it_is_learnt(files, tmp_path):
    """Long texts are cut for classification; in text to text, examples that are too long are dropped or skipped."""
    options = files(train=f"a\t{'x' * 700}\nb\t{'y' * 5}\n", dev="a\tz\n") | {"vocab_kind": "byte"}
    manifest = generate(get_problem("classify_files", options), tmp_path / "data", tmp_path, workers=1)
    assert manifest.splits["train"].examples == 2
    assert manifest.splits["train"].dropped == {}
    folder = tmp_path / "data" / "classify_files"
    reader = SplitReader(folder, read_manifest(folder), "train")
    batches = TrainingBatches(reader, seed=1, batch_size=40, max_length=20)
    assert batches.skipped == 0
    (batch, _) = next(batches)
    x, y = ord("x") + 2, ord("y") + 2
    rows = sorted(batch["inputs"].tolist(), reverse=True)
    assert rows == [[y] * 5 + [1] + [0] * 14, [x] * 19 + [1]]
    [(_, evaluated)] = EvalBatches(reader, 40, max_length=20)
    assert sorted(evaluated["inputs"].tolist(), reverse=True) == rows
