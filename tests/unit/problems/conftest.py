import random

import numpy as np
import pytest

from t2t.problems import split_files
from t2t.problems.base import Source
from t2t.runs.names import get_problem
from tests.raw_files import mnist_files, write_files


@pytest.fixture(scope="session")
def prepared_tfds():
    """Returns a function that writes a small data set in TFDS's files, by TFDS's own builder, which it returns."""

    def prepare(tmp_dir, dataset, splits, files=None):
        import tensorflow_datasets as tfds

        builder = tfds.builder(dataset, data_dir=tmp_dir / "tensorflow_datasets")
        keyed = {split: list(enumerate(examples)) for split, examples in splits.items()}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(builder, "_split_generators", lambda *_, **__: keyed)
            tfds.disable_progress_bar()
            builder.download_and_prepare(download_config=tfds.download.DownloadConfig(num_shards=files))
        return builder

    return prepare


@pytest.fixture
def source(tmp_path):
    return Source(tmp_path, random.Random(0))


@pytest.fixture
def drawn(source):
    """All samples of a split of a registered problem; `size` of them, if the problem can make any number."""

    def draw(name, split, size=None):
        problem = get_problem(name)
        if size:
            problem.train_size = problem.dev_size = size
        return list(problem.generate_samples(split, Source(source.tmp_dir, random.Random(0))))

    return draw


@pytest.fixture
def digits(tmp_path):
    """24 images without black pixels, written as MNIST's training and test files; the label of image n is n % 10."""
    images = np.random.default_rng(0).integers(1, 256, (24, 28, 28)).astype(np.uint8)
    write_files(tmp_path, mnist_files(images, np.arange(24, dtype=np.uint8) % 10))
    return images


@pytest.fixture
def cuts(monkeypatch):
    """A list of the names of files that are cut into blocks."""
    found, cut_files = [], split_files.cut_files

    def cut(files, *args):
        found.append([path.name for path in files])
        return cut_files(files, *args)

    monkeypatch.setattr(split_files, "cut_files", cut)
    return found


@pytest.fixture
def parts_of(source):
    """Returns a function that returns the samples of each shard of a split, and of all of it in one."""

    def parts(problem, split="train"):
        sources = source.each_shard(problem.shards(split, source))
        return [list(problem.generate_samples(split, one)) for one in (*sources, source)]

    return parts
