"""Problems of text files in shards: several files in an option, large files cut into blocks of lines."""

import gzip
import shutil
from pathlib import Path

import pytest

from t2t.data.generate import generate
from t2t.problems.translation import TranslationFiles
from t2t.runs.names import get_problem
from tests.errors import refused


def write(path, lines):
    text = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """Pairs of files of 30, 20 and 10 lines, the second packed on one side; the current folder."""
    monkeypatch.chdir(tmp_path)
    for name, count, ending in (("a", 30, ""), ("b", 20, ".gz"), ("c", 10, "")):
        write(tmp_path / f"{name}.en{ending}", [f"{name} line {number}" for number in range(count)])
        write(tmp_path / f"{name}.de", [f"{name} Zeile {number}" for number in range(count)])
    for side in ("en", "de"):
        write(tmp_path / f"dev.{side}", [f"{side} {number}" for number in range(5)])
    return tmp_path


def options(source="[abc].en*", target="[abc].de"):
    return {"train_source": source, "train_target": target, "dev_source": "dev.en", "dev_target": "dev.de"}


def test_each_of_several_files_is_a_shard(corpus, parts_of):
    *parts, whole = parts_of(get_problem("text2text_files", options()))
    assert [len(part) for part in parts] == [30, 20, 10]
    assert whole == [sample for part in parts for sample in part]
    assert parts[1][3] == {"inputs": "b line 3", "targets": "b Zeile 3"}


def test_a_large_plain_file_is_cut_at_the_same_lines_and_a_packed_one_is_not(corpus, parts_of, source):
    source.shard_bytes = 100
    *parts, whole = parts_of(get_problem("text2text_files", options()))
    assert [len(part) for part in parts] == [10, 10, 10, 20, 10]  # of 10 or 11 bytes on the larger side
    assert whole == [sample for part in parts for sample in part]
    assert all(one["inputs"].split()[2] == one["targets"].split()[2] for one in whole)


def generate_again(corpus, **changed):
    problem = get_problem("text2text_files", options(**changed) | {"vocab_kind": "byte"})
    return generate(problem, "data", corpus, workers=1)


def test_data_remember_each_file_and_each_is_cut_once(corpus, cuts):
    manifest = generate_again(corpus)
    assert {name: Path(file.path).name for name, file in manifest.raw_files.items()} == {
        "train_source 1": "a.en", "train_source 2": "b.en.gz", "train_source 3": "c.en", "train_target 1": "a.de",
        "train_target 2": "b.de", "train_target 3": "c.de", "dev_source": "dev.en", "dev_target": "dev.de",
    }  # fmt: skip
    assert manifest.split("train").examples == 60
    assert len(cuts) == 4  # three pairs to learn from and one to evaluate on


def test_one_file_more_or_another_content_is_other_data_and_files_that_have_moved_are_not(corpus):
    generate_again(corpus)
    assert generate_again(corpus, source="a.en,b.en.gz,c.en").split("train").examples == 60
    shutil.copytree(corpus, corpus / "moved", ignore=shutil.ignore_patterns("data"))
    moved = {"source": "moved/[abc].en*", "target": "moved/[abc].de"}
    assert generate_again(corpus, **moved).split("train").examples == 60
    write(corpus / "moved/b.de", ["other"] * 20)
    with refused("train_target:", "moved/b.de"):
        generate_again(corpus, **moved)
    write(corpus / "c.en", ["other"] * 10)
    with refused("text2text_files", "/c.en"):
        generate_again(corpus)
    with refused("train_source:", "none", "/c.en"):
        generate_again(corpus, source="a.en,b.en.gz", target="a.de,b.de")


def test_files_that_lack_their_counterpart_or_are_not_there_are_named(corpus, parts_of):
    with refused("text2text_files:", 3, "--train_source", 2, "--train_target"):
        parts_of(get_problem("text2text_files", options(target="a.de,b.de")))
    with refused("text2text_files:", f"--train_source={corpus}/x*.en", f"--train_target={corpus}/gone.de"):
        parts_of(get_problem("text2text_files", options("x*.en", "a.de,gone.de")))


def test_lines_of_several_files_are_named_by_file_and_number(corpus, parts_of, source):
    source.shard_bytes = 40
    write(corpus / "one", [f"good\tyes {number}" for number in range(20)])
    write(corpus / "two", [f"bad\tno {number}" for number in range(20)] + ["nothing"])
    problem = get_problem("classify_files", {"train_file": "one,two", "dev_file": "one", "vocab_kind": "byte"})
    with refused("/two,", "21,", "'nothing';"):
        parts_of(problem)
    write(corpus / "two", [f"bad\tno {number}" for number in range(20)])
    *parts, whole = parts_of(problem)
    assert len(parts) > 8
    assert whole == [sample for part in parts for sample in part]
    assert problem.build_encoders(source)["targets"].names == ("bad", "good")


def test_recordings_are_in_shards_of_a_thousand_lines(corpus, parts_of):
    (corpus / "a.wav").write_bytes(b"")
    write(corpus / "list", [f"a.wav\tword {number}" for number in range(1203)])
    *parts, whole = parts_of(get_problem("speech_files", {"train_file": "list", "dev_file": "list"}))
    assert [len(part) for part in parts] == [1000, 203]
    assert whole == [sample for part in parts for sample in part]


def test_trees_of_several_files(corpus, parts_of):
    for name in ("one", "two"):
        write(corpus / name, [f"(TOP (S (NN {name}) (VB runs)))"] * 3)
    problem = get_problem("parsing_trees", {"train_trees": "one,two", "dev_trees": "one", "vocab_kind": "byte"})
    *parts, whole = parts_of(problem)
    assert [[sample["inputs"] for sample in part] for part in parts] == [["one runs"] * 3, ["two runs"] * 3]
    assert whole == parts[0] + parts[1]
    assert [path.name for path in problem.raw_files(corpus).values()] == ["one", "two", "one"]


def test_a_parallel_corpus_that_a_problem_names_is_cut(corpus, parts_of, source):
    class News(TranslationFiles):
        name = "news"
        split_files = {"train": ("a.en", "a.de"), "dev": ("dev.en", "dev.de")}

    source.shard_bytes = 100
    *parts, whole = parts_of(News())
    assert [len(part) for part in parts] == [10, 10, 10]
    assert whole == [sample for part in parts for sample in part]


def test_a_vocabulary_is_learnt_from_all_shards_within_its_bytes(corpus, source):
    problem = get_problem("text2text_files", options() | {"vocab_kind": "token", "vocab_size": 500})
    encoder = problem.build_encoders(source)["inputs"]
    assert {encoder.piece(number) for number in range(encoder.vocab_size)} >= {"a", "b", "c", "29"}
    problem.vocab_sample_bytes = 200
    few = problem.build_encoders(source)["inputs"]
    assert few.vocab_size < encoder.vocab_size
    assert {few.piece(number) for number in range(few.vocab_size)} >= {"a", "b", "c"}
