"""Corpora of pairs of files under their own names."""

import re
from collections import Counter

import pytest

from t2t.runs.names import get_problem
from tests.errors import refused

NAMES = {
    "translate_ende_multi30k": ("de", ("train", "dev", "test")),
    "translate_enfr_multi30k": ("fr", ("train", "dev", "test")),
    "translate_envi_iwslt32k": ("vi", ("train", "dev", "test")),
    "translate_enid_iwslt32k": ("id", ("train", "dev")),
    "translate_enmk_setimes32k": ("mk", ("train", "dev")),
    "translate_enmk_setimes_characters": ("mk", ("train", "dev")),
}


def words_of(file):
    return Counter(re.split("[.-]", file.lower()))


@pytest.mark.parametrize("name", NAMES)
def test_each_split_has_files_of_its_own(name, tmp_path, drawn):
    problem, (language, splits) = get_problem(name), NAMES[name]
    assert (problem.source_language, problem.target_language, problem.splits) == ("en", language, splits)
    assert len(set(problem.file_names())) == len(problem.file_names())
    for file in problem.file_names():
        (tmp_path / file).write_text(f"{file}\n")
    for split in splits:
        for sample in drawn(name, split):
            source, target = words_of(sample["inputs"]), words_of(sample["targets"])
            assert (source - target, target - source) == ({"en": 1}, {language: 1})
        assert [file for sample in drawn(name, split) for file in sample.values()] == list(problem.split_files[split])


def test_of_multi30k_the_usual_splits_are_read_and_missing_files_are_named(tmp_path, drawn):
    (english, _), *others = get_problem("translate_ende_multi30k").split_files.values()
    assert [english, *(first for first, _ in others)] == ["train.en.gz", "val.en.gz", "test_2016_flickr.en.gz"]
    for name in ("train", "val", "test_2016_flickr"):
        (tmp_path / f"{name}.en.gz").write_text("A man sleeps.\n")
    missing = ("train.de.gz,", "val.de.gz,", "test_2016_flickr.de.gz;")
    with refused("translate_ende_multi30k:", tmp_path, *missing, "https://github.com/multi30k/dataset"):
        drawn("translate_ende_multi30k", "train")


def test_the_vocabularies_are_those_of_the_names():
    for name in ("translate_envi_iwslt32k", "translate_enid_iwslt32k", "translate_enmk_setimes32k"):
        assert get_problem(name).vocab_size == 32768
    assert get_problem("translate_enmk_setimes_characters").vocab_kind == "byte"
