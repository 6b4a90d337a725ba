"""Corpora that are read as their makers pack them, or through TFDS."""

import random
import tarfile

import pytest

from t2t.errors import UserError
from t2t.problems.base import Source
from t2t.runs.names import problem_named


@pytest.mark.parametrize("form", ["aclImdb", "aclImdb_v1.tar.gz"])
def test_reviews_of_imdb_alternate_and_the_last_tenth_is_held_out(tmp_path, drawn, form):
    for split in ("train", "test"):
        for label in ("neg", "pos"):
            folder = tmp_path / "aclImdb" / split / label
            folder.mkdir(parents=True)
            for number in range(11):
                (folder / f"{number}_7.txt").write_text(f"{label} {number}<br /><br />of {split}")
    (tmp_path / "aclImdb" / "train" / "urls_neg.txt").write_text("http")
    if form.endswith("gz"):
        with tarfile.open(tmp_path / form, "w:gz") as archive:
            archive.add(tmp_path / "aclImdb", "aclImdb")
        (tmp_path / "aclImdb").rename(tmp_path / "away")
    train = drawn("sentiment_imdb", "train")
    assert [s["inputs"] for s in train[:3]] == ["neg 0 of train", "pos 0 of train", "neg 1 of train"]
    assert [s["targets"] for s in train[:3]] == ["neg", "pos", "neg"]
    assert len(train) == 20
    assert [s["inputs"] for s in drawn("sentiment_imdb", "dev")] == ["neg 10 of train", "pos 10 of train"]
    assert len(drawn("sentiment_imdb", "test")) == 22


def test_reviews_through_tfds(tmp_path, drawn, prepared_tfds):
    reviews = [{"text": f"a<br />b {number}", "label": number % 2} for number in range(10)]
    prepared_tfds(tmp_path, "imdb_reviews", {"train": reviews, "test": reviews[:2], "unsupervised": reviews[:1]})
    assert len(drawn("sentiment_imdb", "train")) == 9
    assert len(drawn("sentiment_imdb", "dev")) == 1
    found = drawn("sentiment_imdb", "test")
    assert sorted((s["inputs"], s["targets"]) for s in found) == [("a b 0", "neg"), ("a b 1", "pos")]


def test_wikitext_keeps_its_words_and_leaves_out_empty_lines(tmp_path, drawn):
    (tmp_path / "wikitext-2").mkdir()
    for word in ("train", "valid", "test"):
        text = f" \n = A {word} = \n \n It is <unk> , 1 @,@ 000 . \n"
        (tmp_path / "wikitext-2" / f"wiki.{word}.tokens").write_text(text)
    expected = [{"targets": "= A valid ="}, {"targets": "It is <unk> , 1 @,@ 000 ."}]
    assert drawn("languagemodel_wikitext2", "dev") == expected
    problem = problem_named("languagemodel_wikitext2")
    problem.with_encoders(problem.build_encoders(Source(tmp_path, random.Random(0))))
    [_, encoded] = problem.encode_samples(expected)
    assert encoded["targets"][2] == 2  # its own <unk> is the vocabulary's
    assert problem.decode_target(encoded["targets"]) == expected[1]["targets"]
    (tmp_path / "wikitext-2" / "wiki.test.tokens").unlink()
    with pytest.raises(UserError, match=r"languagemodel_wikitext2: wikitext-2/wiki.test.tokens missing from .*; put"):
        drawn("languagemodel_wikitext2", "dev")


def test_one_billion_words_of_its_own_folder(tmp_path, drawn):
    root = tmp_path / "1-billion-word-language-modeling-benchmark-r13output"
    training, heldout = (
        root / "training-monolingual.tokenized.shuffled",
        root / "heldout-monolingual.tokenized.shuffled",
    )
    training.mkdir(parents=True)
    heldout.mkdir()
    for number in (1, 2):
        (training / f"news.en-0000{number}-of-00100").write_text(f"Train {number} .\n")
    for number in (0, 1, 2):
        (heldout / f"news.en.heldout-0000{number}-of-00050").write_text(f"Held out {number} .\n")
    texts = {split: [s["targets"] for s in drawn("languagemodel_lm1b32k", split)] for split in ("train", "dev", "test")}
    assert texts == {"train": ["Train 1 .", "Train 2 ."], "dev": ["Held out 1 ."], "test": ["Held out 0 ."]}
    for path in heldout.iterdir():
        path.unlink()
    with pytest.raises(UserError, match=r"heldout-00001-of-00050 missing from 1-billion-.*; unpack its archive again"):
        drawn("languagemodel_lm1b32k", "dev")


def test_one_billion_words_through_tfds(tmp_path, drawn, prepared_tfds):
    prepared_tfds(tmp_path, "lm1b", {"train": [{"text": "Hello there ."}], "test": [{"text": "Bye ."}] * 100})
    assert drawn("languagemodel_lm1b32k", "train") == [{"targets": "Hello there ."}]
    assert drawn("languagemodel_lm1b32k", "dev") == [{"targets": "Bye ."}] * 2
    assert len(drawn("languagemodel_lm1b32k", "test")) == 98
