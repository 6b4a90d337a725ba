import logging
import os
from collections import UserList

import pytest

from t2t.data.generation.generate import generate
from t2t.data.manifest import read_manifest
from t2t.data.reading.reader import SplitReader
from t2t.problems.text_problems import Text2Text


class Digits(Text2Text):
    """Reversing digits: 200 training and 30 dev examples of 1 to 20 digits."""

    name = "digits"
    vocabulary = tuple("0123456789")
    sizes = {"train": 200, "dev": 30}

    def generate_samples(self, split, source):
        for _ in range(self.sizes[split]):
            digits = source.rng.choices(self.vocabulary, k=source.rng.randint(1, 20))
            yield {"inputs": " ".join(digits), "targets": " ".join(reversed(digits))}


class Listed(Digits):
    """A problem with given samples."""

    name = "listed"

    def __init__(self, train, dev=(("1", "1"),), repaired=None, **options):
        super().__init__(**options)
        self.rows = {"train": train, "dev": dev}
        self.repaired = repaired or {}

    def generate_samples(self, split, source):
        if split == "train":
            source.tally.update(self.repaired)
        for inputs, targets in self.rows[split]:
            yield {"inputs": inputs, "targets": targets}


class Sharded(Digits):
    """Digits in shards of 40, 50, ... examples; records the requested shards."""

    name = "sharded"
    parts = {"train": 5, "dev": 2}

    def __init__(self, **options):
        super().__init__(**options)
        self.asked = UserList()  # not a plain value, so not an option of the problem

    def shards(self, split, source):
        return self.parts[split]

    def generate_samples(self, split, source):
        for shard in range(self.parts[split]) if source.shards == 1 else [source.shard]:
            self.asked.append((split, shard))
            for _ in range(40 + 10 * shard):
                yield self.sample(source, split, shard)

    def sample(self, source, split, shard):
        digits = source.rng.choices(self.vocabulary, k=source.rng.randint(1, 20))
        return {"inputs": " ".join(digits), "targets": " ".join(reversed(digits))}


@pytest.fixture(scope="session")
def digits_class():
    return Digits


@pytest.fixture(scope="session")
def listed_class():
    return Listed


@pytest.fixture(scope="session")
def sharded_class():
    return Sharded


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    """Turns off fsync: files of tests need not survive a power failure."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def data_blocks(monkeypatch):
    """Returns a function that sets how many digests, or lengths, are handled at a time."""

    def set_size(size):
        for module in ("generation.duplicates", "reading.reader"):
            monkeypatch.setattr(f"t2t.data.{module}.BLOCK", size)

    return set_size


@pytest.fixture(scope="session")
def digits_folder(tmp_path_factory):
    """Data of `Digits` in shards of 60 examples; read-only."""
    data_dir = tmp_path_factory.mktemp("data")
    generate(Digits(), data_dir, data_dir / "tmp", seed=7, workers=1, most_examples=60)
    return data_dir / "digits"


@pytest.fixture(scope="session")
def digits_train(digits_folder):
    return SplitReader(digits_folder, read_manifest(digits_folder), "train")


@pytest.fixture
def log_lines(caplog):
    caplog.set_level(logging.INFO, logger="t2t")
    return caplog
