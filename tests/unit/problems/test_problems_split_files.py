"""Problems of lines: one file for each split."""

import pytest

from t2t.cli import datagen
from t2t.data.eval_batches import EvalBatches
from t2t.data.generate import generate
from t2t.data.manifest import read_manifest
from t2t.data.reader import SplitReader
from t2t.data.training_batches import TrainingBatches
from t2t.runs.names import get_problem
from tests.errors import refused


@pytest.fixture
def files(tmp_path):
    """Returns options that name files with these contents."""

    def write(**contents):
        for split, content in contents.items():
            (tmp_path / split).write_text(content)
        return {f"{split}_file": str(tmp_path / split) for split in contents}

    return write


@pytest.fixture
def classify(files, tmp_path):
    """Returns a function that generates the data of a classification from files with these contents."""

    def make(**contents):
        problem = get_problem("classify_files", files(**contents) | {"vocab_kind": "byte"})
        return generate(problem, tmp_path / "data", tmp_path, workers=1)

    return make


def test_classes_are_those_of_the_training_file(files, source):
    options = files(train="so so\tit is\ngood\tI like it\n\nbad\tno\t no\n", dev="good\tyes\n", test="bad\toh\n")
    problem = get_problem("classify_files", options | {"vocab_kind": "byte"})
    assert problem.splits == ("train", "dev", "test")
    samples = list(problem.generate_samples("train", source))
    assert [tuple(sample.values()) for sample in samples] == [
        ("it is", "so so"), ("I like it", "good"), ("no\t no", "bad"),
    ]  # fmt: skip
    problem.with_encoders(problem.build_encoders(source))
    assert [problem.decode_target(n) for n in range(3)] == ["bad", "good", "so so"]
    assert problem.spec().targets.vocab_size == 3
    assert [int(e["targets"]) for e in problem.encode_samples(samples)] == [2, 1, 0]
    assert problem.declared_spec().targets.kind == "label"


@pytest.mark.parametrize(("train", "dev", "names"), [
    *((empty, "good\tyes\n", ["'train'", "classify_files", "--train_file="]) for empty in ("", "\n \n")),
    *(("good\tyes\n", empty, ["'dev'", "classify_files", "--dev_file="]) for empty in ("", "\n \n")),
    ("good\tyes\nbad\tno\n", "good\tyes\nfine\tperhaps\n", ["/dev,", "2,", "'fine',", "(bad,"]),
    ("good yes\n", "good\tyes\n", ["/train,", "1,", "TAB:", "yes'"]),
    ("\tyes\n", "good\tyes\n", ["/train,", "1,", "'';"]),
])  # fmt: skip
def test_wrong_lines_and_empty_files_are_named(classify, train, dev, names):
    with refused(*names):
        classify(train=train, dev=dev)


def test_files_that_are_not_given_or_not_there(files, tmp_path, capsys):
    with refused("ClassifyFiles:", "--dev_file", f"--train_file={tmp_path}/train;"):
        get_problem("classify_files", files(train="a\tb\n"))
    for flags, named in (
        ([], ["--train_file,", "--dev_file ", "--train_file=FILE", "--dev_file=FILE", "--test_file=FILE"]),
        (["--train_file=/gone/x", "--dev_file=/gone/y"], ["--train_file=/gone/x", "--dev_file=/gone/y"]),
    ):
        asked = ["t2t-datagen", "--problem=languagemodel_files", f"--data_dir={tmp_path}/data", *flags]
        assert datagen.main(asked) == 2
        said = capsys.readouterr().err
        assert all(name in said for name in ("languagemodel_files: ", *named))


def test_a_language_model_reads_lines(files, source):
    options = files(train="one\n\n two three \n", dev="four\n")
    problem = get_problem("languagemodel_files", options)
    assert [sample["targets"] for sample in problem.generate_samples("train", source)] == ["one", "two three"]


def test_changed_files_are_noticed(classify):
    classify(train="a\tb\nc\td\n", dev="a\tb\n")
    with refused("/train"):
        classify(train="a\tb\nc\te\n", dev="a\tb\n")


def test_long_text_of_a_class_is_kept_and_cut_when_it_is_learnt(classify, tmp_path):
    """Long texts are cut for classification; in text to text, examples that are too long are dropped or skipped."""
    manifest = classify(train=f"a\t{'x' * 700}\nb\t{'y' * 5}\n", dev="a\tz\n")
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
