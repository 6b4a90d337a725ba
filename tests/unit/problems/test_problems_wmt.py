"""Translation of known corpora: WMT through TFDS and in the paper's pieces, and pairs of files of other corpora."""

import json
import random
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from t2t.cli import datagen
from t2t.data.generation.generate import generate
from t2t.data.manifest import read_manifest
from t2t.data.reading.reader import SplitReader
from t2t.files.lines import INVALID_UTF8, NUL_REMOVED
from t2t.inference.split_examples import SplitExamples
from t2t.problems.base import Source
from t2t.problems.tfds import TfdsSplit
from t2t.registry import PROBLEMS
from t2t.runs.config import RunConfig
from t2t.runs.names import get_problem, resolve_aliases
from tests.errors import refused

COUNTS = {"train": 40, "validation": 3, "test": 2}


def pair(split: str, number: int) -> dict[str, bytes]:
    return {"de": f"Die {split} {number} läuft.".encode(), "en": f"The {split} {number} runs.".encode()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, prepared_tfds):
    """A small data set in TFDS's own files, with two damaged German lines for training."""
    tmp_dir = tmp_path_factory.mktemp("raw")
    pairs = {split: [pair(split, number) for number in range(count)] for split, count in COUNTS.items()}
    for example, damage in zip(pairs["train"], (b"\xff", b"\0"), strict=False):
        example["de"] += damage
    prepared_tfds(tmp_dir, "wmt14_translate/de-en", pairs)
    return tmp_dir


def ende():
    return get_problem("wmt_ende_tokens_32k")


def source_of(tmp_dir, **limits):
    return Source(tmp_dir, random.Random(0), **limits)


def samples(split: str, tmp_dir: Path):
    source = source_of(tmp_dir)
    return [(s["inputs"], s["targets"]) for s in ende().generate_samples(split, source)], source.tally


@pytest.mark.parametrize(("split", "stored"), [("dev", "validation"), ("test", "test")])
def test_splits_are_tfds_splits_from_english(folder, split, stored, caplog):
    with caplog.at_level("INFO", "t2t"):
        pairs, tally = samples(split, folder)
    assert caplog.text == "", "nothing is said of data that are there"
    expected = [pair(stored, number) for number in range(COUNTS[stored])]
    assert sorted(pairs) == sorted((p["en"].decode(), p["de"].decode()) for p in expected)
    assert not tally


def test_training_pairs_are_cleaned_and_in_one_order(folder):
    pairs, tally = samples("train", folder)
    assert len(set(pairs)) == 40
    assert ("The train 0 runs.", "Die train 0 läuft.\ufffd") in pairs
    assert ("The train 1 runs.", "Die train 1 läuft.") in pairs
    assert tally == {INVALID_UTF8: 1, NUL_REMOVED: 1}
    assert samples("train", folder)[0] == pairs


def test_one_vocabulary_for_both_sides_of_pieces_or_of_bytes(folder):
    problem, characters = ende(), get_problem("wmt_ende_characters")
    pieces, of_bytes = (one.build_encoders(source_of(folder)) for one in (problem, characters))
    assert (pieces["inputs"] is pieces["targets"], of_bytes["inputs"] is of_bytes["targets"]) == (True, True)
    assert problem.vocab_size == 32768
    assert len(pieces["inputs"].encode("The train")) < 4
    assert len(pieces["inputs"].encode("läuft.")) < 4
    assert of_bytes["inputs"].encode("é") == [0xC3 + 2, 0xA9 + 2]
    assert characters.max_length == 1024, "sentences of ordinary length are kept"


TOKENS = {"8k": 8192, "32k": 32768, "128k": 131072}


@pytest.mark.parametrize("pair", ["ende", "enfr"])
def test_the_names_of_both_eras(pair):
    """June 2017's, and the later ones as other names of the same."""
    german_or_french = {"ende": "wmt14_translate/de-en", "enfr": "wmt14_translate/fr-en"}[pair]
    names = {f"wmt_{pair}_tokens_{size}": f"translate_{pair}_wmt{size}" for size in TOKENS}
    for own, later in {**names, f"wmt_{pair}_characters": f"translate_{pair}_wmt_characters"}.items():
        (entry,) = (entry for entry in PROBLEMS.entries(later) if entry.name == later)
        assert entry.summary == f"alias of {own}"
        for problem in (get_problem(own), get_problem(later)):
            assert (problem.name, problem.stored.name, problem.dataset) == (own, own, german_or_french)
            kind, size = ("sentencepiece", TOKENS[own.rpartition("_")[2]]) if "tokens" in own else ("byte", None)
            assert (problem.vocab_kind, size or problem.vocab_size) == (kind, problem.vocab_size)
        assert get_problem(f"{later}_rev").stored.name == own


def test_data_under_either_name_are_the_same_and_a_request_knows_the_problem_by_its_own(folder, tmp_path):
    flags = [f"--data_dir={tmp_path}", f"--tmp_dir={folder}"]
    assert datagen.main(["t2t-datagen", "--problem=translate_ende_wmt8k", *flags]) == 0
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["wmt_ende_tokens_8k"]
    manifest = tmp_path / "wmt_ende_tokens_8k" / "manifest.json"
    written = manifest.stat().st_mtime_ns
    assert json.loads(manifest.read_text())["problem"] == "wmt_ende_tokens_8k"
    assert datagen.main(["t2t-datagen", "--problem=wmt_ende_tokens_8k", *flags]) == 0
    assert manifest.stat().st_mtime_ns == written, "nothing is generated again"
    for name, expected in (("translate_ende_wmt32k_rev", "wmt_ende_tokens_32k_rev"), ("nothing_rev", "nothing_rev")):
        assert resolve_aliases(RunConfig.given({"problem": name})).problem == expected


@pytest.fixture
def offline(monkeypatch, no_network):
    """A machine without a network, on which downloads are tried twice."""
    from tensorflow_datasets.core.download import downloader

    monkeypatch.setattr(downloader, "MAX_RETRIES", downloader.MAX_RETRIES)  # which reading changes


def test_without_a_network_a_download_is_announced_its_retries_end_and_it_says_what_to_do(offline, tmp_path, caplog):
    caplog.set_level("INFO", "t2t")
    data_dir = tmp_path / "tensorflow_datasets"
    tried = TfdsSplit("enfr", "wmt14_translate/fr-en", "validation", source_of(tmp_path), retries=1).read()
    with refused("enfr:", "tfds.load('wmt14_translate/fr-en',", f"data_dir='{data_dir}')", "ProxyError:"):
        next(tried)
    assert f"{data_dir}/wmt14_translate/fr-en" in caplog.text


def damage(file, place):
    """Flips a bit of a file."""
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


def test_a_damaged_record_is_named_when_it_is_reached(folder, tmp_path):
    shutil.copytree(folder / "tensorflow_datasets", tmp_path / "tensorflow_datasets")
    data_dir = tmp_path / "tensorflow_datasets" / "wmt14_translate" / "de-en"
    (file,) = data_dir.glob("*/*-train.tfrecord-*")
    damage(file, file.stat().st_size // 2)
    drawn = []
    with refused("wmt_ende_tokens_32k:", data_dir, "DataLossError:") as raised:
        drawn.extend(ende().generate_samples("train", source_of(tmp_path)))
    assert 0 < len(drawn) < COUNTS["train"]
    assert f" {len(drawn) + 1} " in str(raised.value)


@pytest.fixture(scope="module")
def in_files(tmp_path_factory, prepared_tfds):
    """Four files of eighty pairs, and what TFDS knows of them."""
    tmp_dir, pairs = tmp_path_factory.mktemp("files"), [pair("train", number) for number in range(320)]
    return tmp_dir, prepared_tfds(tmp_dir, "wmt14_translate/de-en", {"train": pairs}, files=4).info.splits["train"]


def test_each_file_is_a_shard(in_files):
    tmp_dir, info = in_files
    whole = source_of(tmp_dir)
    assert ende().shards("train", whole) == 4
    parts = [list(ende().generate_samples("train", source_of(tmp_dir, shard=shard, shards=4))) for shard in range(4)]
    assert [len(part) for part in parts] == info.shard_lengths
    read = [[sample["inputs"] for sample in part] for part in (*parts, ende().generate_samples("train", whole))]
    assert sorted(english for part in read[:4] for english in part) == sorted(read[4])  # which takes turns
    first = source_of(tmp_dir, shard=1, shards=4, enough_bytes=info.num_bytes // 16)
    beginning = list(ende().generate_samples("train", first))
    assert beginning == parts[1][: len(beginning)]
    assert len(parts[1]) / 5 < len(beginning) < len(parts[1]) / 3
    assert first.skipped == len(parts[1]) - len(beginning)


def test_a_vocabulary_needs_only_the_beginnings_of_the_files(in_files, tmp_path, caplog):
    tmp_dir, info = shutil.copytree(in_files[0], tmp_path / "raw"), in_files[1]
    for file in tmp_dir.glob("*/*/*/*/*-train.tfrecord-*"):
        damage(file, -20)  # in the last pair
    source = source_of(tmp_dir, enough_bytes=info.num_bytes // 4)
    part = {(s["inputs"], s["targets"]) for s in ende().generate_samples("train", source)}
    assert len(part) + source.skipped == info.num_examples
    assert 80 <= len(part) <= 84
    numbers = sorted(int(english.split()[2]) for english, _ in part)
    assert sum(1 for number in numbers if number < 160) == pytest.approx(40, abs=15)  # as TFDS has shuffled them
    with refused("DataLossError:"):
        list(ende().generate_samples("train", source_of(tmp_dir)))
    problem = ende()
    problem.vocab_size, problem.vocab_sample_bytes = 300, info.num_bytes // 4
    with caplog.at_level("INFO", "t2t"):
        problem.build_encoders(source_of(tmp_dir))
    assert f" {2 * len(part)} of 640 lines " in caplog.text


def test_what_the_reader_of_the_samples_raises_passes_as_it_is(folder):
    samples = ende().generate_samples("dev", source_of(folder))
    next(samples)
    with pytest.raises(ZeroDivisionError):
        samples.throw(ZeroDivisionError)


OTHER_PAIRS = {
    "translate_encs_wmt32k": ("wmt14_translate/cs-en", "cs"),
    "translate_encs_wmt_characters": ("wmt14_translate/cs-en", "cs"),
    "translate_enes_wmt8k": ("wmt13_translate/es-en", "es"),
    "translate_enet_wmt32k": ("wmt18_translate/et-en", "et"),
    "translate_enro_wmt32k": ("wmt16_translate/ro-en", "ro"),
    "translate_enro_wmt_characters": ("wmt16_translate/ro-en", "ro"),
    "translate_enzh_wmt32k": ("wmt17_translate/zh-en", "zh"),
}


@pytest.mark.parametrize("name", OTHER_PAIRS)
def test_other_pairs_are_configurations_of_tfds(name):
    import tensorflow_datasets as tfds

    problem = get_problem(name)
    dataset, language = OTHER_PAIRS[name]
    assert (problem.dataset, problem.source_language, problem.target_language) == (dataset, "en", language)
    config = tfds.builder(problem.dataset).builder_config
    assert set(config.language_pair) == {"en", language}
    assert problem.shared_vocabulary == (language != "zh")


# === In the paper's pieces ===
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


def test_the_vocabulary_is_the_archives_between_reserved_pieces_and_has_no_tags(archive, tmp_path):
    encoders = prepared(archive).encoders
    assert encoders["inputs"] is encoders["targets"]
    pieces = [encoders["inputs"].piece(number) for number in range(encoders["inputs"].vocab_size)]
    assert pieces == ["<pad>", "<EOS>", *PIECES, "UNK"]
    assert encoders["inputs"].encode("com@@ mit@@ tee unheard") == [3, 4, 5, len(pieces) - 1]
    problem = get_problem("wmt_ende_bpe32k", {"language_tags": "en,de"})
    with refused("--language_tags=en,de:", "wmt_ende_bpe32k:", "<2"):
        generate(problem, tmp_path, archive, workers=1)
    assert not (tmp_path / "wmt_ende_bpe32k").exists()


def test_outputs_are_read_as_joined_words(archive):
    problem = prepared(archive)
    ids = problem.encoders["targets"].encode(GERMAN)
    assert problem.decode_target(ids) == "der Ausschuss tagt ."
    assert problem.decode_target(ids[:2]) == "der Aus"
    assert problem.features["targets"].join_words("a@@b @@ c") == "a@@b c"
    reversed_ids = problem.encoders["inputs"].encode(ENGLISH)
    assert prepared(archive, "wmt_ende_bpe32k_rev").decode_target(reversed_ids) == "the committee meets ."
    assert get_problem("translate_ende_numbers").features["targets"].join_words("a@@ b") == "a@@ b"
    assert get_problem("translate_ende_wmt_bpe32k").name == "wmt_ende_bpe32k", "the later name is an alias"


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


# === Corpora of pairs of files ===
CORPORA = {
    "translate_ende_multi30k": ("de", ("train", "dev", "test")),
    "translate_enfr_multi30k": ("fr", ("train", "dev", "test")),
    "translate_envi_iwslt32k": ("vi", ("train", "dev", "test")),
    "translate_enid_iwslt32k": ("id", ("train", "dev")),
    "translate_enmk_setimes32k": ("mk", ("train", "dev")),
    "translate_enmk_setimes_characters": ("mk", ("train", "dev")),
}


@pytest.mark.parametrize("name", CORPORA)
def test_each_split_has_files_of_its_own(name, tmp_path, drawn):
    problem, (language, splits) = get_problem(name), CORPORA[name]
    assert (problem.source_language, problem.target_language, problem.splits) == ("en", language, splits)
    assert "32k" not in name or problem.vocab_size == 32768
    assert (problem.vocab_kind == "byte") == name.endswith("characters")
    assert len(set(problem.file_names())) == len(problem.file_names())
    for file in problem.file_names():
        (tmp_path / file).write_text(f"{file}\n")
    for split in splits:
        for sample in drawn(name, split):
            source, target = (Counter(re.split("[.-]", sample[side].lower())) for side in ("inputs", "targets"))
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
