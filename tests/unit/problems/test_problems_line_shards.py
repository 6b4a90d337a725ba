"""Problems of text files in shards: several files in an option, large files cut into blocks of lines."""

import gzip
import random
import shutil
import wave
from pathlib import Path

import numpy as np
import pytest

from t2t.data.generate import generate
from t2t.data.manifest import read_manifest
from t2t.errors import UserError
from t2t.problems.base import Source
from t2t.problems.translation import TranslationFiles
from t2t.runs.names import get_problem


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


def parts_of(problem, split="train"):
    """Returns the samples of each shard of a split, and of all of it in one."""
    whole = Source(Path(), random.Random(0))
    shards = problem.shards(split, whole)
    sources = [Source(Path(), random.Random(0), shard=shard, shards=shards) for shard in range(shards)]
    return [list(problem.generate_samples(split, source)) for source in (*sources, whole)]


def test_each_of_several_files_is_a_shard(corpus):
    *parts, whole = parts_of(get_problem("text2text_files", options()))
    assert [len(part) for part in parts] == [30, 20, 10]
    assert whole == [sample for part in parts for sample in part]
    assert parts[1][3] == {"inputs": "b line 3", "targets": "b Zeile 3"}


def test_a_large_plain_file_is_cut_at_the_same_lines_and_a_packed_one_is_not(corpus, monkeypatch):
    monkeypatch.setattr("t2t.problems.line_shards.SHARD_BYTES", 100)
    *parts, whole = parts_of(get_problem("text2text_files", options()))
    assert [len(part) for part in parts] == [10, 10, 10, 20, 10]  # of 10 or 11 bytes on the larger side
    assert whole == [sample for part in parts for sample in part]
    assert all(one["inputs"].split()[2] == one["targets"].split()[2] for one in whole)


def test_data_remember_each_file(corpus):
    generate(get_problem("text2text_files", options() | {"vocab_kind": "byte"}), "data", corpus, workers=1)
    manifest = read_manifest(corpus / "data/text2text_files")
    assert {name: Path(file.path).name for name, file in manifest.raw_files.items()} == {
        "train_source 1": "a.en", "train_source 2": "b.en.gz", "train_source 3": "c.en", "train_target 1": "a.de",
        "train_target 2": "b.de", "train_target 3": "c.de", "dev_source": "dev.en", "dev_target": "dev.de",
    }  # fmt: skip
    assert manifest.split("train").examples == 60


def generate_again(corpus, **changed):
    problem = get_problem("text2text_files", options(**changed) | {"vocab_kind": "byte"})
    return generate(problem, "data", corpus, workers=1)


def test_one_file_more_or_another_content_is_other_data(corpus):
    generate_again(corpus)
    assert generate_again(corpus, source="a.en,b.en.gz,c.en").split("train").examples == 60
    write(corpus / "c.en", ["other"] * 10)
    with pytest.raises(UserError, match=r"text2text_files was made when .*/c\.en held something else"):
        generate_again(corpus)
    write(corpus / "c.en", [f"c line {number}" for number in range(10)])
    (corpus / "c.en").rename(corpus / "x.en")
    with pytest.raises(UserError, match=r"train_source: asked .*b\.en\.gz', found .*b\.en\.gz,"):
        generate_again(corpus, target="a.de,b.de")


def test_files_that_have_moved_are_the_same_data(corpus):
    generate_again(corpus)
    shutil.copytree(corpus, corpus / "moved", ignore=shutil.ignore_patterns("data"))
    moved = {"source": "moved/[abc].en*", "target": "moved/[abc].de"}
    assert generate_again(corpus, **moved).split("train").examples == 60
    (corpus / "moved/x.en").touch()
    write(corpus / "moved/b.de", ["other"] * 20)
    with pytest.raises(UserError, match=r"train_target: asked .*; a file may lie elsewhere, but must hold the same"):
        generate_again(corpus, **moved)


def test_as_many_files_on_both_sides(corpus):
    problem = get_problem("text2text_files", options(target="a.de,b.de"))
    with pytest.raises(UserError) as raised:
        problem.shards("train", Source(Path(), random.Random(0)))
    assert str(raised.value) == (
        "text2text_files: 3 with --train_source and 2 with --train_target are named; file n of one must go with file n "
        "of the other; name as many of each"
    )


def test_a_pattern_that_matches_nothing_and_a_missing_file_are_named(corpus):
    problem = get_problem("text2text_files", options("x*.en", "a.de,gone.de"))
    with pytest.raises(UserError) as raised:
        parts_of(problem)
    assert str(raised.value) == (
        f"text2text_files: there is no such file: --train_source={corpus}/x*.en, --train_target={corpus}/gone.de; "
        f"check the paths"
    )


def test_lines_of_several_files_are_named_by_file_and_number(corpus, monkeypatch):
    monkeypatch.setattr("t2t.problems.line_shards.SHARD_BYTES", 40)
    write(corpus / "one", [f"good\tyes {number}" for number in range(20)])
    write(corpus / "two", [f"bad\tno {number}" for number in range(20)] + ["nothing"])
    named = {"train_file": "one,two", "dev_file": "one", "vocab_kind": "byte"}
    problem = get_problem("classify_files", named)
    with pytest.raises(UserError, match=r"two, line 21, has no TAB: 'nothing'; a line is a class, a TAB and a text"):
        parts_of(problem)
    write(corpus / "two", [f"bad\tno {number}" for number in range(20)])
    *parts, whole = parts_of(problem)
    assert len(parts) > 8
    assert whole == [sample for part in parts for sample in part]
    generate(problem, "data", corpus, workers=1)
    assert read_manifest(corpus / "data/classify_files").spec.targets.vocab_size == 2


def test_recordings_are_in_shards_of_so_many_lines(corpus, monkeypatch):
    monkeypatch.setattr("t2t.problems.speech_files.ListedRecordings._shard_lines", 3)
    for number in range(8):
        with wave.open(str(corpus / f"{number}.wav"), "wb") as file:
            file.setparams((1, 2, 16_000, 0, "NONE", ""))
            file.writeframes(np.full(400, 100 * number, np.int16).tobytes())
    write(corpus / "list", [f"{number}.wav\tword {number}" for number in range(8)])
    problem = get_problem("speech_files", {"train_file": "list", "dev_file": "list", "vocab_kind": "byte"})
    *parts, whole = parts_of(problem)
    assert [len(part) for part in parts] == [3, 3, 2]
    assert whole == [sample for part in parts for sample in part]
    generate(problem, "data", corpus, workers=1)
    assert len(read_manifest(corpus / "data/speech_files").split("train").shards) == 3


def test_trees_of_several_files(corpus):
    for name in ("one", "two"):
        write(corpus / name, [f"(TOP (S (NN {name}) (VB runs)))"] * 3)
    problem = get_problem("parsing_trees", {"train_trees": "one,two", "dev_trees": "one", "vocab_kind": "byte"})
    *parts, whole = parts_of(problem)
    assert [[sample["inputs"] for sample in part] for part in parts] == [["one runs"] * 3, ["two runs"] * 3]
    assert whole == parts[0] + parts[1]
    assert [path.name for path in problem.raw_files(corpus).values()] == ["one", "two", "one"]


def test_a_parallel_corpus_that_a_problem_names_is_cut(corpus, monkeypatch):
    monkeypatch.setattr("t2t.problems.line_shards.SHARD_BYTES", 100)

    class News(TranslationFiles):
        name = "news"
        split_files = {"train": ("a.en", "a.de"), "dev": ("dev.en", "dev.de")}

    whole = Source(corpus, random.Random(0))
    shards = News().shards("train", whole)
    sources = [Source(corpus, random.Random(0), shard=shard, shards=shards) for shard in range(shards)]
    parts = [list(News().generate_samples("train", source)) for source in sources]
    assert [len(part) for part in parts] == [10, 10, 10]
    assert [sample for part in parts for sample in part] == list(News().generate_samples("train", whole))


def test_a_vocabulary_is_learnt_from_all_shards_within_its_bytes(corpus, caplog):
    problem = get_problem("text2text_files", options() | {"vocab_kind": "token", "vocab_size": 500})
    encoders = problem.build_encoders(Source(corpus, random.Random(0)))
    assert {encoders["inputs"].piece(number) for number in range(encoders["inputs"].vocab_size)} >= {
        "a",
        "b",
        "c",
        "29",
    }
    problem.vocab_sample_bytes = 200
    caplog.set_level("INFO", "t2t")
    few = problem.build_encoders(Source(corpus, random.Random(0)))
    assert few["inputs"].vocab_size < encoders["inputs"].vocab_size
    assert "lines (0.0 MB), one of every 8 of the training text" in caplog.text


def test_where_files_are_cut_is_found_out_once_in_a_generation(corpus, monkeypatch):
    cuts = []
    from t2t.problems import line_shards

    cut = line_shards.cut_files
    monkeypatch.setattr(line_shards, "cut_files", lambda *arguments: cuts.append(arguments) or cut(*arguments))
    generate_again(corpus)
    assert len(cuts) == 4  # three pairs to learn from and one to evaluate on
