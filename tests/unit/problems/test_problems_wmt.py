import dataclasses
import json
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from t2t.cli import datagen
from t2t.errors import UserError
from t2t.files.lines import INVALID_UTF8, NUL_REMOVED
from t2t.problems.base import Source
from t2t.registry import PROBLEMS
from t2t.runs.names import Request, get_problem, resolve_aliases

COUNTS = {"train": 40, "validation": 3, "test": 2}


def pair(split: str, number: int) -> dict[str, bytes]:
    return {"de": f"Die {split} {number} läuft.".encode(), "en": f"The {split} {number} runs.".encode()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small data set in TFDS's own files, written by TFDS's builder of `wmt14_translate/de-en` itself."""
    import tensorflow_datasets as tfds

    tmp_dir = tmp_path_factory.mktemp("raw")
    builder = tfds.builder("wmt14_translate/de-en", data_dir=tmp_dir / "tensorflow_datasets")

    def pairs(split: str):
        damaged = {0: b"\xff", 1: b"\0"} if split == "train" else {}
        for number in range(COUNTS[split]):
            example = pair(split, number)
            yield number, example | {"de": example["de"] + damaged.get(number, b"")}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builder, "_split_generators", lambda *_, **__: {split: pairs(split) for split in COUNTS})
        tfds.disable_progress_bar()
        builder.download_and_prepare()
    return tmp_dir


def ende():
    problem = PROBLEMS.get("wmt_ende_tokens_32k")()
    problem.name = "wmt_ende_tokens_32k"
    return problem


def samples(split: str, tmp_dir: Path):
    source = Source(tmp_dir, random.Random(0))
    return [(s["inputs"], s["targets"]) for s in ende().generate_samples(split, source)], source.tally


@pytest.mark.parametrize(("split", "stored"), [("dev", "validation"), ("test", "test")])
def test_splits_are_tfds_splits_from_english(folder, split, stored):
    pairs, tally = samples(split, folder)
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


def test_one_vocabulary_for_both_sides(folder):
    problem = ende()
    assert problem.vocab_size == 32768
    encoders = problem.build_encoders(Source(folder, random.Random(0)))
    assert encoders["inputs"] is encoders["targets"]
    assert len(encoders["inputs"].encode("The train")) < 4
    assert len(encoders["inputs"].encode("läuft.")) < 4


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
            assert (problem.name, problem.data_name, problem.dataset) == (own, own, german_or_french)
            kind, size = ("sentencepiece", TOKENS[own.rpartition("_")[2]]) if "tokens" in own else ("byte", None)
            assert (problem.vocab_kind, size or problem.vocab_size) == (kind, problem.vocab_size)
        assert get_problem(f"{later}_rev").data_name == own


def test_data_under_either_name_are_the_same(folder, tmp_path, capfd):
    flags = [f"--data_dir={tmp_path}", f"--tmp_dir={folder}"]
    assert datagen.main(["t2t-datagen", "--problem=translate_ende_wmt8k", *flags]) == 0
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["wmt_ende_tokens_8k"]
    manifest = json.loads((tmp_path / "wmt_ende_tokens_8k" / "manifest.json").read_text())
    assert manifest["problem"] == "wmt_ende_tokens_8k"
    said = capfd.readouterr().err
    assert "the vocabulary of inputs and targets is learnt from all 80 lines (0.0 MB) of the training text" in said
    assert datagen.main(["t2t-datagen", "--problem=wmt_ende_tokens_8k", *flags]) == 0
    assert "learnt" not in capfd.readouterr().err


def test_a_request_knows_the_problem_by_its_own_name():
    request = Request(problem="translate_ende_wmt32k_rev", model="transformer", hparams_set="transformer_tiny")
    assert resolve_aliases(request) == dataclasses.replace(request, problem="wmt_ende_tokens_32k_rev")
    assert resolve_aliases(dataclasses.replace(request, problem="nothing_rev")).problem == "nothing_rev"


def test_characters_keep_sentences_of_ordinary_length(folder):
    problem = get_problem("wmt_ende_characters")
    encoders = problem.build_encoders(Source(folder, random.Random(0)))
    assert encoders["inputs"] is encoders["targets"]
    assert encoders["inputs"].encode("é") == [0xC3 + 2, 0xA9 + 2]
    assert problem.max_length == 1024


def test_a_download_that_fails_says_what_to_do(tmp_path, monkeypatch):
    import tensorflow_datasets as tfds

    def offline(*args, **kwargs):
        raise ConnectionError("no route to\nhost")

    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", offline)
    problem = PROBLEMS.get("wmt_enfr_tokens_32k")()
    problem.name = "wmt_enfr_tokens_32k"
    place = tmp_path / "tensorflow_datasets"
    with pytest.raises(UserError) as raised:
        next(problem.generate_samples("dev", Source(tmp_path, random.Random(0))))
    assert str(raised.value) == (
        f"wmt_enfr_tokens_32k: tfds.load('wmt14_translate/fr-en', split='validation', data_dir='{place}') failed: "
        f"ConnectionError: no route to host; connect this machine to the network, or prepare the data set with "
        f"TensorFlow Datasets elsewhere and copy its folder to {place}/wmt14_translate/fr-en"
    )


def test_without_a_network_a_download_is_announced_and_its_retries_end(tmp_path, monkeypatch, caplog):
    from tensorflow_datasets.core.download import downloader

    monkeypatch.setattr(downloader, "MAX_RETRIES", 10)  # restored at the end
    monkeypatch.setattr("t2t.problems.formats.tfds._RETRIES", 1)
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    begin = time.monotonic()
    with caplog.at_level("INFO", "t2t"), pytest.raises(UserError, match=r"failed: ProxyError: .* connect this machine"):
        next(ende().generate_samples("dev", Source(tmp_path, random.Random(0))))
    assert time.monotonic() - begin < 60  # TFDS's own retries pause for 204 s
    place = f"{tmp_path}/tensorflow_datasets/wmt14_translate/de-en"
    assert f"wmt_ende_tokens_32k: downloading wmt14_translate/de-en (of unknown size) and preparing it in {place}" in (
        caplog.text
    )


def test_data_that_are_there_are_not_announced(folder, caplog):
    with caplog.at_level("INFO", "t2t"):
        samples("dev", folder)
    assert "downloading" not in caplog.text


def test_the_module_loads_neither_tensorflow_nor_tfds():
    code = "import sys, t2t.problems.wmt; print([m for m in sys.modules if m.startswith('tensorflow')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_damaged_record_is_named_when_it_is_reached(folder, tmp_path):
    shutil.copytree(folder / "tensorflow_datasets", tmp_path / "tensorflow_datasets")
    place = tmp_path / "tensorflow_datasets" / "wmt14_translate" / "de-en"
    (file,) = place.glob("*/*-train.tfrecord-*")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    drawn = []
    with pytest.raises(UserError) as raised:
        drawn.extend(ende().generate_samples("train", Source(tmp_path, random.Random(0))))
    assert 0 < len(drawn) < COUNTS["train"]
    assert str(raised.value).startswith(
        f"wmt_ende_tokens_32k: reading example {len(drawn) + 1} of the data set in {place} failed: DataLossError: "
    )
    assert str(raised.value).endswith("; if its files are damaged, delete that folder and run the same command again")
    assert "\n" not in str(raised.value)


@pytest.fixture
def in_whole_files(tmp_path):
    """Four files of eighty pairs."""
    import tensorflow_datasets as tfds

    builder = tfds.builder("wmt14_translate/de-en", data_dir=tmp_path / "tensorflow_datasets")

    def pairs(*_, **__):
        return {"train": ((number, pair("train", number)) for number in range(320))}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builder, "_split_generators", pairs)
        tfds.disable_progress_bar()
        builder.download_and_prepare(download_config=tfds.download.DownloadConfig(num_shards=4))
    return tmp_path, builder.info.splits["train"]


@pytest.fixture
def in_files(in_whole_files):
    """Four files of eighty pairs, of which the last of each is damaged."""
    for file in (in_whole_files[0] / "tensorflow_datasets").glob("*/*/*/*-train.tfrecord-*"):
        content = bytearray(file.read_bytes())
        content[-20] ^= 1
        file.write_bytes(content)
    return in_whole_files


def test_each_file_is_a_shard(in_whole_files):
    tmp_dir, info = in_whole_files
    whole = Source(tmp_dir, random.Random(0))
    assert ende().shards("train", whole) == 4
    sources = [Source(tmp_dir, random.Random(0), shard=shard, shards=4) for shard in range(4)]
    parts = [list(ende().generate_samples("train", source)) for source in sources]
    assert [len(part) for part in parts] == info.shard_lengths
    read = [[sample["inputs"] for sample in part] for part in (*parts, ende().generate_samples("train", whole))]
    assert sorted(english for part in read[:4] for english in part) == sorted(read[4])  # which takes turns
    first = Source(tmp_dir, random.Random(0), shard=1, shards=4, enough_bytes=info.num_bytes // 16)
    beginning = list(ende().generate_samples("train", first))
    assert beginning == parts[1][: len(beginning)]
    assert len(parts[1]) / 5 < len(beginning) < len(parts[1]) / 3
    assert first.skipped == len(parts[1]) - len(beginning)


def test_a_vocabulary_needs_only_the_beginnings_of_the_files(in_files, caplog):
    tmp_dir, info = in_files
    assert len(info.shard_lengths) == 4
    source = Source(tmp_dir, random.Random(0), enough_bytes=info.num_bytes // 4)
    part = {(s["inputs"], s["targets"]) for s in ende().generate_samples("train", source)}
    assert len(part) + source.skipped == info.num_examples
    assert 80 <= len(part) <= 84
    numbers = sorted(int(english.split()[2]) for english, _ in part)
    assert sum(1 for number in numbers if number < 160) == pytest.approx(40, abs=15)  # as TFDS has shuffled them
    with pytest.raises(UserError, match=r"reading example .* failed: DataLossError"):
        list(ende().generate_samples("train", Source(tmp_dir, random.Random(0))))

    problem = ende()
    problem.vocab_size, problem.vocab_sample_bytes = 300, info.num_bytes // 4
    with caplog.at_level("INFO", "t2t"):
        problem.build_encoders(Source(tmp_dir, random.Random(0)))
    said = rf"learnt from {2 * len(part)} of 640 lines \(0.0 MB\), one of every 4 of the training text"
    assert re.search(said, caplog.text)


def test_what_the_reader_of_the_samples_raises_passes_as_it_is(folder):
    samples = ende().generate_samples("dev", Source(folder, random.Random(0)))
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


def test_another_pair_reads_its_own_language(tmp_path, drawn, prepared_tfds):
    examples = [{"en": "The meeting begins.", "ro": "Ședința începe."}]
    prepared_tfds(tmp_path, "wmt16_translate/ro-en", dict.fromkeys(("train", "validation", "test"), examples))
    expected = [{"inputs": "The meeting begins.", "targets": "Ședința începe."}]
    for split in ("train", "dev", "test"):
        assert drawn("translate_enro_wmt32k", split) == expected
    assert [(s["inputs"], s["targets"]) for s in drawn("translate_enro_wmt32k_rev", "dev")] == [
        ("Ședința începe.", "The meeting begins.")
    ]
