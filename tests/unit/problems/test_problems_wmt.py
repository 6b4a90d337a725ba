import random
import subprocess
import sys
from pathlib import Path

import pytest

from t2t.errors import UserError
from t2t.problems.base import Source
from t2t.problems.wmt import WmtEnde, WmtEnfr
from t2t.text.lines import INVALID_UTF8, NUL_REMOVED

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
    problem = WmtEnde()
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


def test_a_download_that_fails_says_what_to_do(tmp_path, monkeypatch):
    import tensorflow_datasets as tfds

    def offline(*args, **kwargs):
        raise ConnectionError("no route to\nhost")

    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", offline)
    problem = WmtEnfr()
    problem.name = "wmt_enfr_tokens_32k"
    place = tmp_path / "tensorflow_datasets"
    with pytest.raises(UserError) as raised:
        next(problem.generate_samples("dev", Source(tmp_path, random.Random(0))))
    assert str(raised.value) == (
        f"wmt_enfr_tokens_32k: tfds.load('wmt14_translate/fr-en', split='validation', data_dir='{place}') failed: "
        f"ConnectionError: no route to host; connect this machine to the network, or prepare the data set with "
        f"TensorFlow Datasets elsewhere and copy its folder to {place}/wmt14_translate/fr-en"
    )


def test_the_module_loads_neither_tensorflow_nor_tfds():
    code = "import sys, t2t.problems.wmt; print([m for m in sys.modules if m.startswith('tensorflow')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
