"""Memory of generating and reading data does not grow in proportion to the number of examples."""

import tracemalloc
from functools import partial
from itertools import islice

import numpy as np
import pytest

from t2t.data.generation.generate import generate
from t2t.data.manifest import read_manifest
from t2t.data.reading.batch_arrays import extreme_batches
from t2t.data.reading.reader import SequenceLengths, SplitReader
from t2t.data.reading.sampler import WindowedOrder
from t2t.data.reading.training_batches import TrainingBatches
from t2t.text.sample import draw_sample

FEW, MANY = 2500, 10_000
GROWTH = 3.0
"""Limit in bytes per additional example; anything stored for each example would take at least 4."""


def peak_of(work):
    """Returns the peak memory of Python and numpy in bytes while `work` runs; memory maps do not count."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def of_size(digits_class, tmp_path_factory):
    """Folders of generated data of FEW examples and of MANY, with the peaks of generating them without duplicates.

    Only one block of a shard's 24-byte digests, or one group of all shards' digests, is in memory at a time.
    """
    made = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("t2t.data.generation.duplicates.BLOCK", 500)
        for count in (10, FEW, MANY):  # the first for one-time imports
            folder = tmp_path_factory.mktemp("data")
            sizes = {"train": count, "dev": 5}
            problem = type("Digits", (digits_class,), {"sizes": sizes})(filter_duplicates="pair")
            work = partial(generate, problem, folder, folder / "tmp", workers=1, progress=lambda *_: None)
            made[count] = folder / "digits", peak_of(work)
    return made


def test_generating_and_looking_for_duplicates(of_size):
    assert of_size[MANY][1] - of_size[FEW][1] < GROWTH * (MANY - FEW)


@pytest.mark.parametrize("max_length", [40, 12])
def test_opening_and_drawing_training_batches(of_size, data_blocks, max_length):
    data_blocks(500)
    peaks = {}
    for count in (10, FEW, MANY):  # the first for one-time imports
        folder = of_size[max(count, FEW)][0]

        def draw(folder=folder):
            reader = SplitReader(folder, read_manifest(folder), "train")
            extreme_batches(reader, None, batch_size=200, max_length=max_length)
            batches = TrainingBatches(reader, seed=1, batch_size=200, window=500, max_length=max_length)
            assert (batches.skipped > 0) == (max_length == 12)
            assert len(list(islice(batches, 200))) == 200

        peaks[count] = peak_of(draw)
    assert peaks[MANY] - peaks[FEW] < GROWTH * (MANY - FEW)


def test_the_order_of_twenty_million_examples_is_not_kept():
    """It takes a few bytes per example of one window only."""
    window = 16_384
    order = WindowedOrder(20_000_000, seed=1, window=window)
    few = peak_of(lambda: WindowedOrder(window, seed=1, window=window).indices(3, 0))
    assert peak_of(lambda: order.indices(3, order.windows - 1)) < 1.2 * few < 1.2 * 100 * window
    assert peak_of(lambda: WindowedOrder(20_000_000, seed=1, window=window)) < 5000


def test_the_text_that_a_vocabulary_is_learnt_from_is_bounded():
    def peak(count):
        lines = (f"{number:08} of a corpus of many lines" for number in range(count))
        return peak_of(lambda: draw_sample(lines, 20_000))

    few, many = peak(2500), peak(40_000)
    assert many < 1.2 * few
    assert few < 20_000 * 6  # lines have 35 characters, 49 bytes of overhead and a list entry


def test_a_block_is_as_good_as_the_whole(of_size, data_blocks):
    folder = of_size[FEW][0]
    reader = SplitReader(folder, read_manifest(folder), "train")
    data_blocks(700)
    found = list(SequenceLengths(reader, {"mine": "inputs"}).in_blocks())
    assert [len(block["mine"]) for block in found] == [700, 700, 700, len(reader) - 2100]
    np.testing.assert_array_equal(np.concatenate([block["mine"] for block in found]), reader.lengths("inputs"))
    assert list(SequenceLengths(reader, {}).in_blocks()) == []
