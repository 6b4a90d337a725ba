"""Corpora of pairs of files under their own names."""

import pytest

from t2t.runs.names import get_problem

NAMES = {
    "translate_envi_iwslt32k": ("vi", ("train", "dev", "test")),
    "translate_enmk_setimes32k": ("mk", ("train", "dev")),
    "translate_enmk_setimes_characters": ("mk", ("train", "dev")),
}


@pytest.mark.parametrize("name", NAMES)
def test_each_split_has_files_of_its_own(name, tmp_path, drawn):
    problem, (language, splits) = get_problem(name), NAMES[name]
    assert (problem.source_language, problem.target_language, problem.splits) == ("en", language, splits)
    for split in splits:
        for file, side in zip(problem.split_files[split], ("en", language), strict=True):
            (tmp_path / file).write_text(f"{split} {side}\n")
    for split in splits:
        assert drawn(name, split) == [{"inputs": f"{split} en", "targets": f"{split} {language}"}]


def test_the_vocabularies_are_those_of_the_names():
    assert get_problem("translate_envi_iwslt32k").vocab_size == 32768
    assert get_problem("translate_enmk_setimes32k").vocab_size == 32768
    assert get_problem("translate_enmk_setimes_characters").vocab_kind == "byte"
