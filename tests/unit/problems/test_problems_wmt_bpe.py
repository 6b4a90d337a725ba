"""WMT in the paper's pieces: the archive's files, its vocabulary, and words joined where people read them."""

import random

import pytest

from t2t.cli import datagen
from t2t.data.generate import generate
from t2t.data.manifest import read_manifest
from t2t.data.reader import SplitReader
from t2t.inference.split_examples import SplitExamples
from t2t.problems.base import Source
from t2t.runs.names import get_problem
from tests.errors import refused

PIECES = ["the", "com@@", "mit@@", "tee", "meets", "der", "Aus@@", "schuss", "tagt", "."]
STEMS = {"train": "train.tok.clean", "dev": "newstest2013.tok", "test": "newstest2014.tok"}
ENGLISH, GERMAN = "the com@@ mit@@ tee meets .", "der Aus@@ schuss tagt ."


@pytest.fixture
def archive(tmp_path):
    """The files of the archive that are read, of two lines each."""
    folder = tmp_path / "raw"
    folder.mkdir()
    for stem in STEMS.values():
        (folder / f"{stem}.bpe.32000.en").write_text(f"{ENGLISH}\nmeets unheard .\n")
        (folder / f"{stem}.bpe.32000.de").write_text(f"{GERMAN}\ntagt Un@@ ge@@ hört .\n")
    (folder / "vocab.bpe.32000").write_text("".join(piece + "\n" for piece in PIECES))
    return folder


def prepared(archive, name="wmt_ende_bpe32k"):
    problem = get_problem(name)
    return problem.with_encoders(problem.build_encoders(Source(archive, random.Random(0))))


def test_the_vocabulary_is_the_archives_between_reserved_pieces(archive):
    encoders = prepared(archive).encoders
    assert encoders["inputs"] is encoders["targets"]
    pieces = [encoders["inputs"].piece(number) for number in range(encoders["inputs"].vocab_size)]
    assert pieces == ["<pad>", "<EOS>", *PIECES, "UNK"]
    assert encoders["inputs"].encode("com@@ mit@@ tee unheard") == [3, 4, 5, len(pieces) - 1]


def test_outputs_are_read_as_joined_words(archive):
    problem = prepared(archive)
    ids = problem.encoders["targets"].encode(GERMAN)
    assert problem.decode_target(ids) == "der Ausschuss tagt ."
    assert problem.decode_target(ids[:2]) == "der Aus"
    assert problem.join_words("a@@b @@ c") == "a@@b c"
    reversed_ids = problem.encoders["inputs"].encode(ENGLISH)
    assert prepared(archive, "wmt_ende_bpe32k_rev").decode_target(reversed_ids) == "the committee meets ."
    assert get_problem("translate_ende_numbers").join_words("a@@ b") == "a@@ b"


def test_references_are_joined_words_also_of_pieces_that_the_vocabulary_lacks(archive, tmp_path):
    folder = tmp_path / "wmt_ende_bpe32k"
    flags = ["--problem=wmt_ende_bpe32k", f"--data_dir={tmp_path}", f"--tmp_dir={archive}"]
    assert datagen.main(["t2t-datagen", *flags]) == 0
    for name, expected in (
        ("wmt_ende_bpe32k", ["der Ausschuss tagt .", "tagt Ungehört ."]),
        ("wmt_ende_bpe32k_rev", ["the committee meets .", "meets unheard ."]),
    ):
        reader = SplitReader(folder, read_manifest(folder), "test")
        assert SplitExamples(prepared(archive, name), reader).references() == expected


def test_without_a_file_it_says_where_all_come_from(archive):
    (archive / "vocab.bpe.32000").unlink()
    with refused("wmt_ende_bpe32k:", archive, "vocab.bpe.32000;", "https://google.github.io/seq2seq/nmt/"):
        prepared(archive)
    problem = get_problem("wmt_ende_bpe32k", {"vocab_kind": "byte"})  # which needs no file
    source = Source(archive, random.Random(0))
    assert problem.build_encoders(source)["inputs"].kind == "byte"
    assert next(iter(problem.generate_samples("train", source)))


def test_the_later_name_is_an_alias():
    assert get_problem("translate_ende_wmt_bpe32k").name == "wmt_ende_bpe32k"


def test_the_archives_vocabulary_has_no_tags(archive, tmp_path):
    problem = get_problem("wmt_ende_bpe32k", {"language_tags": "en,de"})
    with refused("--language_tags=en,de:", "wmt_ende_bpe32k:", "<2"):
        generate(problem, tmp_path, archive, workers=1)
    assert not (tmp_path / "wmt_ende_bpe32k").exists()
