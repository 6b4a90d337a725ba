import random

import pytest

from t2t.problems.base import Source
from t2t.runs.names import get_problem


@pytest.fixture(scope="session")
def prepared_tfds():
    """Returns a function that writes a small data set in TFDS's file format, with TFDS's builder of that name."""

    def prepare(tmp_dir, dataset, splits):
        import tensorflow_datasets as tfds

        builder = tfds.builder(dataset, data_dir=tmp_dir / "tensorflow_datasets")
        keyed = {split: list(enumerate(examples)) for split, examples in splits.items()}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(builder, "_split_generators", lambda *_, **__: keyed)
            tfds.disable_progress_bar()
            builder.download_and_prepare()

    return prepare


@pytest.fixture
def drawn(tmp_path):
    """All samples of a split of a registered problem."""

    def draw(name, split, **options):
        return list(get_problem(name, options).generate_samples(split, Source(tmp_path, random.Random(0))))

    return draw
