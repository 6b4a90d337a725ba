import gzip
import random
from collections import Counter

import pytest

from t2t.errors import UserError
from t2t.files.lines import INVALID_UTF8
from t2t.problems.base import Source
from t2t.problems.translation import TranslationFiles


class News(TranslationFiles):
    name = "news"
    source_language, target_language = "nl", "sv"
    home = "the archive"
    split_files = {"dev": ("dev.nl", "dev.sv"), "train": ("train.nl.gz", "train.sv.gz")}


def source(tmp_path):
    return Source(tmp_path, random.Random(0))


def samples(problem, split, tmp_path):
    return [(s["inputs"], s["targets"]) for s in problem.generate_samples(split, source(tmp_path))]


def write_all(folder):
    (folder / "train.nl").write_text("een\ntwee\n")
    (folder / "train.sv.gz").write_bytes(gzip.compress("ett\ntvå\n".encode()))
    (folder / "dev.nl.gz").write_bytes(gzip.compress(b"drie\n"))
    (folder / "dev.sv").write_text("tre\n")


def test_files_are_found_with_and_without_gz(tmp_path):
    write_all(tmp_path)
    assert samples(News(), "train", tmp_path) == [("een", "ett"), ("twee", "två")]
    assert samples(News(), "dev", tmp_path) == [("drie", "tre")]


def test_the_name_as_it_stands_comes_first(tmp_path):
    write_all(tmp_path)
    (tmp_path / "dev.nl").write_text("vier\n")
    assert samples(News(), "dev", tmp_path) == [("vier", "tre")]


def test_several_corpora_follow_each_other(tmp_path):
    class Both(News):
        split_files = {"train": ("train.nl", "train.sv", "dev.nl", "dev.sv")}

    write_all(tmp_path)
    assert samples(Both(), "train", tmp_path) == [("een", "ett"), ("twee", "två"), ("drie", "tre")]
    (tmp_path / "dev.sv").unlink()
    with pytest.raises(UserError, match=r"news: 1 of its 4 raw files are missing from .*: dev\.sv; put them there"):
        samples(Both(), "train", tmp_path)


def test_splits_are_those_with_files(tmp_path):
    assert News.splits == ("train", "dev")
    with pytest.raises(UserError, match="split 'test': news has train, dev; ask for one of these"):
        samples(News(), "test", tmp_path)


def test_all_missing_files_are_named_at_once(tmp_path):
    write_all(tmp_path)
    (tmp_path / "train.nl").unlink()
    (tmp_path / "dev.sv").unlink()
    with pytest.raises(UserError) as raised:
        samples(News(), "dev", tmp_path)
    assert str(raised.value) == (
        f"news: 2 of its 4 raw files are missing from {tmp_path}: train.nl.gz, dev.sv; put them there (with or without "
        f".gz) or name their folder with --tmp_dir; they come from the archive"
    )


def test_a_folder_that_does_not_exist(tmp_path):
    with pytest.raises(UserError, match=r"4 of its 4 raw files are missing from .*nowhere"):
        samples(News(), "train", tmp_path / "nowhere")


def test_requirements_name_every_file():
    assert News().requirements() == (
        "train.nl.gz, train.sv.gz, dev.nl, dev.sv (with or without .gz) in --tmp_dir; from the archive"
    )


def test_what_is_repaired_is_counted(tmp_path):
    write_all(tmp_path)
    (tmp_path / "dev.sv").write_bytes(b"tr\xff\n")
    given = source(tmp_path)
    assert list(News().generate_samples("dev", given)) == [{"inputs": "drie", "targets": "tr\ufffd"}]
    assert given.tally == Counter({INVALID_UTF8: 1})


def test_unequal_files(tmp_path):
    write_all(tmp_path)
    (tmp_path / "dev.sv").write_text("tre\nfyra\n")
    with pytest.raises(UserError, match=r"dev\.nl\.gz has 1 lines and .*dev\.sv has 2;"):
        samples(News(), "dev", tmp_path)
