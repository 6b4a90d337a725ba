"""Changes of raw files after data was made from them are detected only by data generation."""

import dataclasses
import json
import os
import shutil
from pathlib import Path

import pytest

import t2t
from t2t.data.generation.generate import generate
from t2t.data.manifest import Manifest, RawFile, read_manifest
from t2t.problems.translation import TranslationFiles
from t2t.runs.config import RunConfig
from t2t.runs.data import generate_all, open_data
from t2t.runs.names import get_problem
from tests.errors import refused
from tests.sealed_files import edited

PAPER = "abc"
PAPER_SHA256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
"""FIPS 180-4's own example of a digest."""


@pytest.fixture
def files(tmp_path):
    paths = {}
    for split in ("train", "dev"):
        for side in ("source", "target"):
            path = tmp_path / f"{split}.{side}"
            path.write_text(PAPER)
            paths[f"{split}_{side}"] = str(path)
    return paths


@pytest.fixture
def request_(files, tmp_path):
    return RunConfig(
        problem="text2text_files", problem_options={**files, "vocab_kind": "byte"}, data_dir=f"{tmp_path}/d"
    )


def generated(request):
    return generate_all(request)[0]


def test_training_generates_data_with_an_option_that_generation_alone_refuses(request_, tmp_path):
    options = {**request_.problem_options, "subword_sampling": 0.1}

    def refuse():
        with refused("subword_sampling=0.1", "t2t.train"):
            t2t.generate_data(request_.problem, tmp_path / "d", **options)

    refuse()
    assert not (tmp_path / "d").exists()
    manifest = generated(dataclasses.replace(request_, problem_options=options))
    assert "subword_sampling" not in manifest.options
    refuse()  # also where the data exists
    counts = t2t.generate_data(request_.problem, tmp_path / "d", **{**options, "subword_sampling": 0.0})
    assert counts == {"train": 1, "dev": 1}


def test_other_contents_under_the_same_path_are_refused(request_, files, tmp_path):
    manifest = generated(request_)
    folder = tmp_path / "d" / "text2text_files"
    stamp = os.stat(files["dev_target"])
    Path(files["dev_target"]).write_text("abd")  # the same size
    os.utime(files["dev_target"], ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # and modification time
    Path(files["train_source"]).write_text("abc\n")
    with refused(folder, files["train_source"], files["dev_target"], "--data_dir"):
        generated(request_)
    assert read_manifest(folder) == manifest
    shutil.rmtree(folder)
    assert generated(request_).raw_files["train_source"].bytes == 4


def test_the_same_contents_copied_or_gone_are_no_matter(request_, files):
    manifest = generated(request_)
    assert manifest.raw_files == {
        name: RawFile(path=path, bytes=3, sha256=PAPER_SHA256) for name, path in files.items()
    }
    assert Manifest.from_dict(json.loads(manifest.to_json())) == manifest
    os.utime(files["dev_target"], ns=(5, 5))
    assert generated(request_) == manifest
    for path in files.values():
        Path(path).unlink()
    assert generated(request_) == manifest


def moved(request, files, folder):
    """Moves the files; returns a request with their new paths."""
    folder.mkdir()
    paths = {name: shutil.move(path, folder / Path(path).name) for name, path in files.items()}
    return dataclasses.replace(request, problem_options=request.problem_options | {n: str(p) for n, p in paths.items()})


def opened(request, **known):
    return open_data(request, get_problem(request.problem, request.problem_options), **known)


def test_files_that_have_moved_are_the_same_data(request_, files, tmp_path):
    manifest, before = generated(request_), opened(request_)
    asked = moved(request_, files, tmp_path / "elsewhere")
    assert generated(asked) == manifest
    assert opened(asked).fingerprint == before.fingerprint
    assert opened(asked).problem.options == before.problem.options
    for folder in (request_.data_dir, f"{tmp_path}/anew"):
        shutil.rmtree(request_.data_dir, ignore_errors=True)
        anew = dataclasses.replace(asked, data_dir=folder)
        assert generated(anew).splits == manifest.splits
        assert opened(anew).fingerprint == before.fingerprint
        assert opened(anew).former_fingerprint != before.former_fingerprint


def test_moved_files_that_hold_something_else_are_other_data(request_, files, tmp_path):
    generated(request_)
    asked = moved(request_, files, tmp_path / "elsewhere")
    Path(asked.problem_options["dev_target"]).write_text("abd")
    Path(asked.problem_options["train_target"]).unlink()
    for use in (generated, opened):
        with refused(*(f"'{path}/{side}.target'" for path in (tmp_path, tmp_path / "elsewhere")
                       for side in ("dev", "train")), tmp_path / "d/text2text_files"):  # fmt: skip
            use(asked)


def test_of_the_data_that_a_run_knows_moved_files_may_be_gone_but_none_may_be_added(request_, files, tmp_path):
    generated(request_)
    data = opened(request_)
    asked = moved(request_, files, tmp_path / "elsewhere")
    shutil.rmtree(tmp_path / "elsewhere")
    for known in (data.fingerprint, data.former_fingerprint):
        assert opened(asked, known=known).fingerprint == data.fingerprint
    with refused(tmp_path / "elsewhere/dev.target"):
        opened(asked, known="0" * 64)
    for name in ("dev_source", "dev_target"):
        Path(files[name]).write_text("other text")
    other = dataclasses.replace(asked, problem_options=asked.problem_options | {"dev_target": files["dev_source"]})
    with refused("dev_target", files["dev_source"]):
        opened(other, known=data.fingerprint)
    more = {"test_source": files["dev_source"], "test_target": files["dev_target"]}
    more = dataclasses.replace(request_, problem_options=request_.problem_options | more)
    for known in ("", data.fingerprint):
        with refused("test_source", "test_target"):
            opened(more, known=known)


def test_trees_that_have_moved_are_the_same_data(tmp_path):
    for split in ("train", "dev"):
        (tmp_path / split).write_text("(S (NP (DT a) (NN dog)) (VP (VBZ runs)))\n" * 3)
    options = {"train_trees": f"{tmp_path}/train", "dev_trees": f"{tmp_path}/dev", "vocab_kind": "byte"}
    request = RunConfig(problem="parsing_trees", problem_options=options, data_dir=f"{tmp_path}/d")
    manifest = generated(request)
    asked = dataclasses.replace(request, problem_options=options | {"train_trees": f"{tmp_path}/dev"})
    assert generated(asked) == manifest
    (tmp_path / "dev").write_text("(S (NP (DT a) (NN cat)) (VP (VBZ runs)))\n" * 3)
    with refused("train_trees", f"'{tmp_path}/dev'", f"'{tmp_path}/train'"):
        generated(asked)


def test_training_reads_no_raw_file_and_what_is_said_of_them_is_no_part_of_the_data(request_, files):
    manifest = generated(request_)
    problem = get_problem(request_.problem, request_.problem_options)
    problem.raw_files = None
    before = open_data(request_, problem).fingerprint
    Path(files["train_source"]).write_text("other text")
    assert open_data(request_, problem).fingerprint == before
    plain = json.loads(manifest.to_json())
    del plain["raw_files"], plain["declared"]  # the first versions did not write these
    plain["splits"]["train"]["unknown"] = {"targets": 1}
    (Path(request_.data_dir) / "text2text_files" / "manifest.json").write_text(json.dumps(plain))
    assert open_data(request_, problem).fingerprint == before


def test_a_vocabulary_that_was_given_counts_as_a_raw_file(files, tmp_path):
    vocabulary = tmp_path / "words.tokens"
    vocabulary.write_text("<pad>\n</s>\n<unk>\nabc\n")
    request = RunConfig(
        problem="text2text_files", problem_options={**files, "vocab_file": str(vocabulary)}, data_dir=f"{tmp_path}/d"
    )
    assert generated(request).raw_files.keys() == {*files, "vocab_file"}
    vocabulary.write_text("<pad>\n</s>\n<unk>\nabcd\n")
    with refused("words.tokens"):
        generated(request)


class News(TranslationFiles):
    name = "news"
    vocab_kind = "byte"
    split_files = {"train": ("a.gz", "b"), "dev": ("a.gz", "b")}


class InFolders(News):
    name = "in_folders"
    split_files = {"train": ("train/a.gz", "train/b"), "dev": ("dev/a.gz", "dev/b")}


@pytest.fixture
def corpus(tmp_path):
    """Returns a function that generates data of a problem from files in a folder, each with its own content."""
    for folder in (tmp_path, tmp_path / "moved"):
        for name in ("a", "b", "train/a", "train/b", "dev/a", "dev/b"):
            (folder / name).parent.mkdir(exist_ok=True, parents=True)
            (folder / name).write_text(f"{name}\n")
    return lambda problem, raw=tmp_path: generate(problem, tmp_path / "d", raw, workers=1)


def test_files_of_a_corpus_by_their_names_in_the_folder(corpus, tmp_path):
    manifest, elsewhere = corpus(News()), tmp_path / "moved"
    assert manifest.raw_files.keys() == {"a", "b"}
    assert corpus(News(), elsewhere) == manifest
    (elsewhere / "a.gz").write_text("packed, and so another file")
    assert corpus(News(), elsewhere) == manifest
    (elsewhere / "b").write_text("abd")
    with refused("d/news", elsewhere / "b"):
        corpus(News(), elsewhere)

    class OfMemory(News):
        name = "of_memory"

        def raw_files(self, tmp_dir):
            return {"a": Path("/proc/self/mem")}  # nothing is mapped at its beginning

    with refused("/proc/self/mem"):
        corpus(OfMemory())


def test_files_of_one_name_in_several_folders_are_told_apart(corpus, tmp_path):
    manifest = corpus(InFolders())
    assert list(manifest.raw_files) == ["train/a", "train/b", "dev/a", "dev/b"]
    for changed in ("train/b", "dev/b"):
        assert corpus(InFolders()) == manifest
        (tmp_path / changed).write_text("something else\n")
        with refused("d/in_folders", tmp_path / changed):
            corpus(InFolders())
        (tmp_path / changed).write_text(f"{changed}\n")


def test_data_with_the_names_of_files_alone_are_recognised_and_compared_as_far_as_known(corpus, tmp_path):
    corpus(InFolders())
    with edited(tmp_path / "d/in_folders/manifest.json") as manifest:  # earlier versions kept the last of each name
        manifest["raw_files"] = {name: manifest["raw_files"][f"dev/{name}"] for name in "ab"}
    assert corpus(InFolders()).raw_files.keys() == {"a", "b"}
    (tmp_path / "train/a").write_text("something else\n")
    assert corpus(InFolders()).raw_files.keys() == {"a", "b"}
    (tmp_path / "dev/a").write_text("something else\n")
    with refused("d/in_folders", tmp_path / "dev/a"):
        corpus(InFolders())
