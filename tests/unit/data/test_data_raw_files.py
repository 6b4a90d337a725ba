"""Changes of raw files after data was made from them are detected only by data generation."""

import dataclasses
import json
import os
import shutil
from pathlib import Path

import pytest

import t2t
from t2t.data.generate import generate
from t2t.data.manifest import Manifest, read_manifest
from t2t.data.raw_files import RawFile
from t2t.errors import UserError
from t2t.problems.text_files import Text2TextFiles
from t2t.problems.translation import TranslationFiles
from t2t.runs.data import generate_data, open_data
from t2t.runs.names import Request, get_problem
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
    return Request(problem="text2text_files", problem_options={**files, "vocab_kind": "byte"}, data_dir=f"{tmp_path}/d")


def generated(request):
    return generate_data(request, get_problem(request.problem, request.problem_options))


def test_the_manifest_says_what_the_files_held(request_, files):
    manifest = generated(request_)
    assert manifest.raw_files == {
        name: RawFile(path=path, bytes=3, sha256=PAPER_SHA256) for name, path in files.items()
    }
    assert Manifest.from_dict(json.loads(manifest.to_json())) == manifest


def test_training_generates_data_with_an_option_that_generation_alone_refuses(request_, tmp_path):
    options = {**request_.problem_options, "subword_sampling": 0.1}
    refused = r"^subword_sampling=0.1: only training reads it; give it to t2t.train in problem_options$"
    with pytest.raises(UserError, match=refused):
        t2t.generate_data(request_.problem, tmp_path / "d", **options)
    assert not (tmp_path / "d").exists()
    manifest = generated(dataclasses.replace(request_, problem_options=options))
    assert "subword_sampling" not in manifest.options
    with pytest.raises(UserError, match=refused):  # also where the data exists
        t2t.generate_data(request_.problem, tmp_path / "d", **options)
    assert t2t.generate_data(request_.problem, tmp_path / "d", **{**options, "subword_sampling": 0.0}) == {
        "train": 1, "dev": 1,
    }  # fmt: skip


def test_other_contents_under_the_same_path_are_refused(request_, files, tmp_path):
    manifest = generated(request_)
    folder = tmp_path / "d" / "text2text_files"
    stamp = os.stat(files["dev_target"])
    Path(files["dev_target"]).write_text("abd")  # the same size
    os.utime(files["dev_target"], ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # and modification time
    Path(files["train_source"]).write_text("abc\n")
    with pytest.raises(UserError) as raised:
        generated(request_)
    assert str(raised.value) == (
        f"{folder} was made when {files['train_source']}, {files['dev_target']} held something else; to generate it "
        f"again, delete that folder or choose another --data_dir; to use the data as it is, do not generate it again"
    )
    assert read_manifest(folder) == manifest
    shutil.rmtree(folder)
    assert generated(request_).raw_files["train_source"].bytes == 4


def test_the_same_contents_copied_or_gone_are_no_matter(request_, files):
    manifest = generated(request_)
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
        with pytest.raises(UserError) as raised:
            use(asked)
        assert str(raised.value) == (
            f"{tmp_path}/d/text2text_files holds data made otherwise than asked (dev_target: asked "
            f"'{tmp_path}/elsewhere/dev.target', found '{tmp_path}/dev.target'; train_target: asked "
            f"'{tmp_path}/elsewhere/train.target', found '{tmp_path}/train.target'; a file may lie elsewhere, but must "
            f"hold the same); choose another --data_dir, delete that folder, or ask for what it holds"
        )


def test_of_the_data_that_a_run_knows_moved_files_may_be_gone(request_, files, tmp_path):
    generated(request_)
    data = opened(request_)
    asked = moved(request_, files, tmp_path / "elsewhere")
    shutil.rmtree(tmp_path / "elsewhere")
    for known in (data.fingerprint, data.former_fingerprint):
        assert opened(asked, known=known).fingerprint == data.fingerprint
    with pytest.raises(UserError, match="made otherwise than asked"):
        opened(asked, known="0" * 64)
    Path(files["dev_source"]).write_text("other text")
    asked = dataclasses.replace(asked, problem_options=asked.problem_options | {"dev_target": files["dev_source"]})
    with pytest.raises(UserError, match=r"made otherwise than asked \(dev_target: asked '[^;]*; a file may lie"):
        opened(asked, known=data.fingerprint)


def test_a_file_that_was_not_named_is_no_moved_one(request_, files, tmp_path):
    generated(request_)
    more = {"test_source": files["dev_source"], "test_target": files["dev_target"]}
    asked = dataclasses.replace(request_, problem_options=request_.problem_options | more)
    for known in ("", opened(request_).fingerprint):
        with pytest.raises(
            UserError, match=r"test_source: asked '.*', found none; test_target: .*, found none; a file"
        ):
            opened(asked, known=known)


def test_trees_that_have_moved_are_the_same_data(tmp_path):
    for split in ("train", "dev"):
        (tmp_path / split).write_text("(S (NP (DT a) (NN dog)) (VP (VBZ runs)))\n" * 3)
    options = {"train_trees": f"{tmp_path}/train", "dev_trees": f"{tmp_path}/dev", "vocab_kind": "byte"}
    request = Request(problem="parsing_trees", problem_options=options, data_dir=f"{tmp_path}/d")
    manifest = generated(request)
    asked = dataclasses.replace(request, problem_options=options | {"train_trees": f"{tmp_path}/dev"})
    assert generated(asked) == manifest
    (tmp_path / "dev").write_text("(S (NP (DT a) (NN cat)) (VP (VBZ runs)))\n" * 3)
    with pytest.raises(UserError, match=r"\(train_trees: asked '.*/dev', found '.*/train'; a file may lie elsewhere"):
        generated(asked)


def test_training_reads_no_raw_file(request_, files, monkeypatch):
    problem = get_problem(request_.problem, request_.problem_options)
    generated(request_)
    fingerprint = open_data(request_, problem).fingerprint
    Path(files["train_source"]).write_text("other text")
    monkeypatch.setattr(Text2TextFiles, "raw_files", None)
    assert open_data(request_, problem).fingerprint == fingerprint


def test_what_is_said_of_the_files_and_settings_is_no_part_of_the_data(request_):
    problem = get_problem(request_.problem, request_.problem_options)
    manifest = generated(request_)
    before = open_data(request_, problem).fingerprint
    plain = json.loads(manifest.to_json())
    del plain["raw_files"], plain["declared"]  # the first versions did not write these
    plain["splits"]["train"]["unknown"] = {"targets": 1}
    (Path(request_.data_dir) / "text2text_files" / "manifest.json").write_text(json.dumps(plain))
    assert open_data(request_, problem).fingerprint == before


def test_a_vocabulary_that_was_given_counts_as_a_raw_file(files, tmp_path):
    vocabulary = tmp_path / "words.tokens"
    vocabulary.write_text("<pad>\n</s>\n<unk>\nabc\n")
    request = Request(
        problem="text2text_files", problem_options={**files, "vocab_file": str(vocabulary)}, data_dir=f"{tmp_path}/d"
    )
    assert generated(request).raw_files.keys() == {*files, "vocab_file"}
    vocabulary.write_text("<pad>\n</s>\n<unk>\nabcd\n")
    with pytest.raises(UserError, match=r"was made when .*words\.tokens held something else"):
        generated(request)


def test_files_of_a_corpus_by_their_names_in_the_folder(tmp_path):
    class News(TranslationFiles):
        name = "news"
        vocab_kind = "byte"
        split_files = {"train": ("a.gz", "b"), "dev": ("a.gz", "b")}

    for name in "ab":
        (tmp_path / name).write_text(PAPER)
    manifest = generate(News(), tmp_path / "d", tmp_path, workers=1)
    assert manifest.raw_files.keys() == {"a", "b"}
    elsewhere = tmp_path / "moved"
    elsewhere.mkdir()
    assert generate(News(), tmp_path / "d", elsewhere, workers=1) == manifest
    (elsewhere / "a.gz").write_text("packed, and so another file")
    assert generate(News(), tmp_path / "d", elsewhere, workers=1) == manifest
    (elsewhere / "b").write_text("abd")
    with pytest.raises(UserError, match=rf"d/news was made when {elsewhere}/b held something else"):
        generate(News(), tmp_path / "d", elsewhere, workers=1)


class InFolders(TranslationFiles):
    name = "in_folders"
    vocab_kind = "byte"
    split_files = {"train": ("train/a.gz", "train/b"), "dev": ("dev/a.gz", "dev/b")}


@pytest.fixture
def in_folders(tmp_path):
    """The files of that corpus, each with its own content, and a function that generates its data."""
    names = ("train/a", "train/b", "dev/a", "dev/b")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{name}\n")
    return names, lambda: generate(InFolders(), tmp_path / "d", tmp_path, workers=1)


@pytest.mark.parametrize("changed", ["train/b", "dev/b"])
def test_files_of_one_name_in_several_folders_are_told_apart(in_folders, tmp_path, changed):
    names, again = in_folders
    manifest = again()
    assert list(manifest.raw_files) == list(names)
    assert again() == manifest
    (tmp_path / changed).write_text("something else\n")
    with pytest.raises(UserError, match=rf"d/in_folders was made when {tmp_path}/{changed} held something else"):
        again()


def test_data_with_the_names_of_files_alone_are_recognised_and_compared_as_far_as_known(in_folders, tmp_path):
    _, again = in_folders
    again()
    with edited(tmp_path / "d/in_folders/manifest.json") as manifest:  # earlier versions kept the last of each name
        manifest["raw_files"] = {name: manifest["raw_files"][f"dev/{name}"] for name in "ab"}
    assert again().raw_files.keys() == {"a", "b"}
    (tmp_path / "train/a").write_text("something else\n")
    assert again().raw_files.keys() == {"a", "b"}
    (tmp_path / "dev/a").write_text("something else\n")
    with pytest.raises(UserError, match=rf"d/in_folders was made when {tmp_path}/dev/a held something else"):
        again()


def test_a_file_that_cannot_be_read_is_named(request_, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("t2t.data.raw_files.sha256_of", refuse)
    with pytest.raises(UserError, match=r"train\.source: cannot be read \(Permission denied\); correct its permiss"):
        generated(request_)
