import gzip
import random

import pytest

from t2t.errors import UserError
from t2t.problems.base import Source
from t2t.registry import PROBLEMS

SENTENCES = {
    "en": ["A man sleeps.", "Two dogs run.", "A girl sings."],
    "de": ["Ein Mann schläft.", "Zwei Hunde rennen.", "Ein Mädchen singt."],
    "fr": ["Un homme dort.", "Deux chiens courent.", "Une fille chante."],
}


def get_problem(name):
    problem = PROBLEMS.get(name)()
    problem.name = name
    return problem


def write_files(folder, languages):
    for language in languages:
        for count, stem in ((3, "train"), (2, "val"), (1, "test_2016_flickr")):
            text = "".join(line + "\n" for line in SENTENCES[language][:count])
            (folder / f"{stem}.{language}.gz").write_bytes(gzip.compress(text.encode()))


@pytest.mark.parametrize("target", ["de", "fr"])
def test_reads_the_raw_files_under_their_names(tmp_path, target):
    write_files(tmp_path, ("en", target))
    problem = get_problem(f"translate_en{target}_multi30k")
    assert problem.splits == ("train", "dev", "test")
    for count, split in ((3, "train"), (2, "dev"), (1, "test")):
        pairs = [
            (s["inputs"], s["targets"]) for s in problem.generate_samples(split, Source(tmp_path, random.Random(0)))
        ]
        assert pairs == list(zip(SENTENCES["en"], SENTENCES[target], strict=True))[:count]
    assert (problem.source_language, problem.target_language) == ("en", target)


def test_says_which_files_to_fetch(tmp_path):
    write_files(tmp_path, ("en",))
    with pytest.raises(UserError) as raised:
        next(get_problem("translate_ende_multi30k").generate_samples("train", Source(tmp_path, random.Random(0))))
    assert str(raised.value).startswith(
        f"translate_ende_multi30k: 3 of its 6 raw files are missing from {tmp_path}: "
        f"train.de.gz, val.de.gz, test_2016_flickr.de.gz; put them there (with or without .gz)"
    )
    assert "https://github.com/multi30k/dataset" in str(raised.value)
