"""Moving digits: bounces by hand, and clips and classes from small files of MNIST's format."""

import itertools
import random

import numpy as np
import pytest

from t2t.data.eval_batches import EvalBatches
from t2t.data.extremes import extreme_batches
from t2t.data.generate import generate
from t2t.data.manifest import read_manifest
from t2t.data.reader import SplitReader
from t2t.problems.base import Source
from t2t.problems.formats.images import resized
from t2t.problems.moving_mnist import bounced, direction_of, moving
from t2t.runs.names import get_problem
from t2t.specs.features import FeatureKind

FREE = 14
"""Pixels between the walls that a digit of 14 x 14 can move in a frame of 28 x 28."""


@pytest.mark.parametrize(("start", "velocity", "free", "expected"), [
    (1, -2, 5, [1, 1, 3, 5, 3, 1, 1]),  # at the wall after half a frame, and exactly at the other
    (4, 2, 5, [4, 4, 2, 0, 2, 4, 4]),
    (0, 1.5, 6, [0, 1.5, 3, 4.5, 6, 4.5, 3]),
    (2, 7, 3, [2, 3, 2, 1, 0, 1, 2]),  # both walls within a frame: 2 to 3, to 0, to 3
])  # fmt: skip
def test_bounces_by_hand(start, velocity, free, expected):
    assert bounced(start, velocity, free, 7).tolist() == expected


def test_bounces_are_those_of_small_steps():
    """A small part of a frame at a time, turning at the walls."""
    rng = random.Random(1)
    for _ in range(3):
        place, velocity = rng.uniform(0, FREE), rng.uniform(-3, 3)
        found = bounced(place, velocity, FREE, 20)
        for frame in range(20):
            assert found[frame] == pytest.approx(place, abs=1e-6)
            for _ in range(200):
                place += velocity / 200
                if not 0 <= place <= FREE:
                    place, velocity = (-place if place < 0 else 2 * FREE - place), -velocity


def test_an_image_moves_over_black_as_a_whole():
    image = np.arange(1, 7, dtype=np.uint8).reshape(2, 3, 1)
    clip = moving(image, 5, (0, 1), (1, -1), 5)
    assert (clip.shape, clip.dtype) == ((5, 5, 5, 1), np.uint8)
    for frame, row, column in zip(clip, (0, 1, 2, 3, 2), (1, 0, 1, 2, 1), strict=True):
        np.testing.assert_array_equal(frame[row : row + 2, column : column + 3], image)
        assert frame.sum() == image.sum()


@pytest.mark.parametrize(("velocities", "name"), [
    ((-1, -2), "up left"), ((-1, 2), "up right"), ((1, -2), "down left"), ((1.5, 2), "down right"),
])  # fmt: skip
def test_directions_by_hand(velocities, name):
    assert direction_of(velocities) == name


def corner(frame):
    """Row and column of the upper left corner of what is not black."""
    return tuple(int(np.flatnonzero(frame.any(axis=(1 - axis, 2)))[0]) for axis in range(2))


def test_classes_are_the_digit_and_where_it_goes_first(digits, drawn):
    samples = drawn("video_moving_mnist_class", "train") + drawn("video_moving_mnist_class", "dev")
    assert len(samples) == 24
    lengths, seen = set(), 0
    for number, sample in enumerate(samples):
        clip, (digit, *way) = sample["inputs"], sample["targets"].split()
        assert digit == str(number % 10)
        lengths.add(len(clip))
        small = resized(digits[number][..., None], 14, 14)
        assert set(clip.sum(axis=(1, 2, 3), dtype=int).tolist()) == {int(small.sum(dtype=int))}
        for axis, (back, forth) in enumerate((("up", "down"), ("left", "right"))):
            first, second = (corner(frame)[axis] for frame in clip[:2])
            if 4 <= first <= FREE - 4:  # too far from the walls to turn within a frame
                assert way[axis] == (forth if second > first else back)
                seen += 1
    assert lengths <= set(range(6, 11))
    assert len(lengths) > 1
    assert seen > 10
    assert get_problem("video_moving_mnist_class").class_labels[:5] == (
        "0 up left", "0 up right", "0 down left", "0 down right", "1 up left",
    )  # fmt: skip


def test_the_next_frame_is_where_the_digit_is_then(digits, drawn):
    seen = 0
    for number, sample in enumerate(drawn("video_moving_mnist_next", "train")):
        frame = np.array(sample["targets"].split(), np.uint8).reshape(28, 28, 1)
        (*_, before, last), place = map(corner, sample["inputs"]), corner(frame)
        small = resized(digits[number][..., None], 14, 14)
        np.testing.assert_array_equal(frame[place[0] : place[0] + 14, place[1] : place[1] + 14], small)
        for axis in range(2):
            moved = last[axis] - before[axis]
            if all(4 <= one[axis] <= FREE - 4 for one in (before, last)):
                assert abs(place[axis] - last[axis] - moved) <= 1  # positions are rounded
                seen += 1
        assert len(sample["inputs"]) == 4
    assert seen > 5


@pytest.mark.parametrize("name", ["video_moving_mnist_class", "video_moving_mnist_next"])
def test_clips_are_a_function_of_the_seed(digits, tmp_path, name):
    def first(seed):
        samples = get_problem(name).generate_samples("test", Source(tmp_path, random.Random(seed)))
        return [(sample["inputs"].tobytes(), sample["targets"]) for sample in itertools.islice(samples, 5)]

    assert first(1) == first(1)
    assert first(1) != first(2)


def test_the_test_images_alone_are_enough(digits, drawn, tmp_path):
    for path in tmp_path.glob("train-*"):
        path.unlink()
    assert [sample["targets"][0] for sample in drawn("video_moving_mnist_t10k_class", "dev")] == ["4", "9", "4", "9"]
    assert len(drawn("video_moving_mnist_t10k_next", "train")) == 20


def test_the_whole_way_to_padded_batches(digits, tmp_path, drawn):
    problem = get_problem("video_moving_mnist_class")
    manifest = generate(problem, tmp_path / "data", tmp_path, workers=1)
    assert (manifest.spec.inputs.kind, manifest.spec.inputs.shape) == (FeatureKind.VIDEO, (28, 28, 1))
    assert manifest.spec.targets.vocab_size == 40
    assert set(manifest.raw_files) == {
        f"{stem}-ubyte" for stem in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    }
    folder = tmp_path / "data" / "video_moving_mnist_class"
    reader = SplitReader(folder, read_manifest(folder), "test")
    lengths = reader.lengths("inputs")
    stored = sum((folder / shard.values["inputs"].name).stat().st_size for shard in manifest.split("test").shards)
    assert int(lengths.sum()) * 28 * 28 <= stored <= int(lengths.sum()) * 28 * 28 + 200
    places = []
    for indices, batch in EvalBatches(reader, 40):
        assert batch["inputs"].dtype == np.uint8
        for row, length in zip(batch["inputs"], lengths[indices], strict=True):
            assert row[:length].any(axis=(1, 2, 3)).all()
            assert not row[length:].any()
        places += indices.tolist()
    assert sorted(places) == list(range(24))
    largest = extreme_batches(reader, None, batch_size=40, max_length=256)[0]["inputs"]
    assert largest.shape[:2] == (40 // lengths.max(), lengths.max())
    assert largest.all()
    for indices, batch in EvalBatches(reader, 40, max_length=1):  # cut to the first frame, which shows the content
        for row, index in zip(batch["inputs"], indices, strict=True):
            np.testing.assert_array_equal(row, reader.read(np.array([index]), "inputs")[0][:1])
