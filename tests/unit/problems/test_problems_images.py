"""Problems with arrays: images and clips as inputs, images as sequences of intensities, moving digits."""

import io
import itertools
import random
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from t2t.data.generation.generate import generate
from t2t.data.manifest import load_encoders, read_manifest
from t2t.data.reading.batch_arrays import extreme_batches
from t2t.data.reading.eval_batches import EvalBatches
from t2t.data.reading.reader import SplitReader
from t2t.features.image import png_file, resized
from t2t.problems.array_inputs import ImageInputs, Video2Class
from t2t.problems.base import Finished, Problem, Source, declared_spec, nominal_spec, read_input
from t2t.problems.image_generation import bounced, direction_of, moving
from t2t.runs.names import get_hparams, get_problem
from t2t.specs.features import FeatureKind
from tests.errors import refused
from tests.raw_files import mnist_files, write_files


def test_the_whole_way_to_stored_images_and_back(tmp_path):
    images = np.arange(36, dtype=np.uint8)[:, None, None] * np.ones((1, 28, 28), np.uint8)
    write_files(tmp_path / "raw", mnist_files(images, np.arange(36, dtype=np.uint8) % 10))
    problem = get_problem("image_mnist")
    manifest = generate(problem, tmp_path, tmp_path / "raw", workers=1)
    assert {split: record.examples for split, record in manifest.splits.items()} == {"train": 33, "dev": 3, "test": 36}
    assert set(manifest.raw_files) == {
        f"{stem}-ubyte" for stem in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    }
    spec = manifest.spec
    assert (spec.inputs.kind, spec.inputs.shape) == (FeatureKind.IMAGE, (28, 28, 1))
    assert (spec.targets.kind, spec.targets.vocab_size) == (FeatureKind.LABEL, 10)
    folder = tmp_path / "image_mnist"
    reader = SplitReader(folder, read_manifest(folder), "test")
    assert reader.single(np.array([7, 3]), "inputs").max(axis=(1, 2, 3)).tolist() == [7, 3]
    labels = reader.single(np.array([7, 3]), "targets")
    loaded = get_problem("image_mnist").with_encoders(load_encoders(folder, manifest))
    assert [loaded.decode_target(label) for label in labels] == ["7", "3"]
    assert generate(get_problem("image_mnist"), tmp_path, tmp_path / "raw", workers=1) == manifest


class Clips(Video2Class):
    """Clips of small frames in colour."""

    name = "clips"
    image_shape = (2, 4, 3)
    class_labels = ("a", "b")

    def generate_samples(self, split, source):
        raise NotImplementedError


CLIP = np.zeros((5, 2, 4, 3), np.uint8)
IMAGE, WAVES = np.zeros((2, 2, 1), np.uint8), np.zeros(3)
GOOD = {
    "image_mnist": {"inputs": IMAGE, "targets": "1"}, "clips": {"inputs": CLIP, "targets": "a"},
    "speech_files": {"inputs": WAVES, "targets": "a"}, "speech_generate_files": {"inputs": "a", "targets": Path("a")},
}  # fmt: skip


@pytest.mark.parametrize(("problem", "change", "names"), [
    ("image_mnist", {"inputs": IMAGE.astype(float)}, "'inputs' float64 (2, 2, 1)"),
    ("image_mnist", {"inputs": IMAGE[:, :, 0]}, "'inputs' uint8 (2, 2)"),
    ("image_mnist", {"inputs": IMAGE[:0]}, "'inputs' uint8 (0, 2, 1)"),
    ("image_mnist", {"inputs": "a"}, "'inputs' 'a'"),
    ("image_mnist", {"inputs": IMAGE.repeat(3, 2)}, "'inputs' 3 1"),
    ("image_mnist", {"targets": "10"}, "'targets' '10' class_labels (0, 1, 2,"),
    ("image_mnist", {"targets": 1}, "'targets' 1 class_labels"),
    ("image_mnist", {"targets": ...}, "'targets' class_labels"),
    ("image_mnist", {"inputs": ...}, "'inputs'"),
    ("clips", {"inputs": CLIP.astype(float)}, "'inputs' float64 (5, 2, 4, 3)"),
    ("clips", {"inputs": CLIP[0]}, "'inputs' uint8 (2, 4, 3)"),
    ("clips", {"inputs": CLIP[:0]}, "'inputs' uint8 (0, 2, 4, 3)"),
    ("clips", {"inputs": "a"}, "'inputs' 'a'"),
    ("clips", {"inputs": CLIP[..., :1]}, "'inputs' 1 3"),
    ("speech_files", {"inputs": "a.wav"}, "'a.wav' 'inputs' pathlib.Path 16000"),
    ("speech_files", {"inputs": np.zeros(3, int)}, "'inputs'"),
    ("speech_files", {"targets": ...}, "'targets'"),
    ("speech_generate_files", {"targets": "a.wav"}, "'a.wav' 'targets' pathlib.Path"),
    ("speech_generate_files", {"inputs": ...}, "'inputs' 'targets' pathlib.Path"),
])  # fmt: skip
def test_what_is_wrong_with_a_sample_is_named(problem, change, names):
    """A value of `...` stands for a feature that is missing."""
    made = Clips() if problem == "clips" else get_problem(problem)
    assert made.sample_fault(GOOD[problem]) == ""
    changed = {name: value for name, value in (GOOD[problem] | change).items() if value is not ...}
    fault = made.sample_fault(changed)
    assert all(name in fault for name in names.split())
    assert "dict" in made.sample_fault([])


def test_frames_of_another_size_are_resized_one_by_one_and_image_files_as_a_model_reads_them(tmp_path):
    problem = Clips()
    problem.with_encoders(problem.build_encoders(None))
    clip = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3)).astype(np.uint8)
    (encoded,) = problem.encode_samples([{"inputs": clip, "targets": "b"}])
    assert int(encoded["targets"]) == 1
    np.testing.assert_array_equal(encoded["inputs"], [resized(frame, 2, 4) for frame in clip])
    image = np.random.default_rng(0).integers(0, 256, (28, 28, 1)).astype(np.uint8)
    (tmp_path / "a.png").write_bytes(png_file(image))
    (tmp_path / "b.png").write_bytes(png_file(image.repeat(2, 0).repeat(2, 1)))
    problem = get_problem("image_mnist")
    np.testing.assert_array_equal(read_input(problem, tmp_path / "a.png"), image)
    assert read_input(problem, tmp_path / "b.png").shape == (28, 28, 1)


@pytest.mark.parametrize("problem", ["video_moving_mnist_class", "text2text_files"])
def test_other_inputs_are_not_read_from_files(problem, tmp_path):
    with refused(tmp_path / "a", problem):
        read_input(get_problem(problem), tmp_path / "a")


def test_images_of_targets_that_declare_nothing_have_no_declared_features():
    class Described(ImageInputs, Problem):
        image_shape = (4, 4, 3)

        def generate_samples(self, split, source):
            yield from ()

        def build_encoders(self, source):
            return {}

    assert declared_spec(Described()) is None
    assert nominal_spec(Described()) is None


# === Images as sequences of intensities ===
def test_an_image_is_its_rows_one_after_the_other(digits, drawn):
    sample = drawn("image_mnist_gen", "test")[3]
    assert sample["inputs"] == "3"
    assert sample["targets"].split()[:29] == [*map(str, digits[3, 0]), str(digits[3, 1, 0])]
    assert sample["targets"] == " ".join(str(i) for i in digits[3].ravel())
    assert drawn("image_mnist_plain_gen", "test")[3] == {"targets": sample["targets"]}
    assert drawn("image_mnist_t10k_gen", "dev")[0]["inputs"] == "4"
    with refused("'vocab_kind'", "ImageMnistGen"):
        get_problem("image_mnist_gen", {"vocab_kind": "byte"})


@pytest.mark.parametrize("name", ["image_mnist_gen", "image_mnist_plain_gen"])
def test_intensities_the_whole_way_and_back(digits, tmp_path, name):
    problem = get_problem(name)
    manifest = generate(problem, tmp_path / "data", tmp_path, workers=1)
    folder = tmp_path / "data" / name
    reader = SplitReader(folder, read_manifest(folder), "test")
    assert set(reader.lengths("targets")) == {28 * 28 + 1}
    assert manifest.spec.targets.vocab_size == 256 + 3
    assert ("inputs" in manifest.spec.features) == (name == "image_mnist_gen")
    problem = problem.with_encoders(problem.build_encoders(None))
    (ids,) = problem.encode_samples([{"inputs": "7", "targets": " ".join(map(str, digits[0].ravel()))}])
    back = np.array(problem.decode_target(ids["targets"]).split(), np.uint8).reshape(28, 28)
    np.testing.assert_array_equal(back, digits[0])


@pytest.mark.parametrize(("name", "hparams_set", "longest"), [
    ("image_mnist_gen", "imagetransformer_mnist", 28 * 28 + 1),
    ("image_mnist_gen", "transformer_image_tiny", 28 * 28 + 1),
    ("image_cifar10_gen", "imagetransformer_base", 32 * 32 * 3 + 1),
    ("image_cifar10_gen", "transformer_image_base", 32 * 32 * 3 + 1),
    ("video_moving_mnist_next", "imagetransformer_mnist", 28 * 28 + 1),
])  # fmt: skip
def test_sets_for_images_are_long_enough_for_them(name, hparams_set, longest):
    hparams = get_hparams(hparams_set)
    assert get_problem(name).max_length == longest
    assert longest <= min(hparams.max_length, hparams.extra_length + 1, hparams.batch_size)


@pytest.mark.parametrize(("name", "shape"), [
    ("image_mnist_gen", (28, 28)), ("image_cifar10_gen", (32, 32, 3)), ("video_moving_mnist_next", (28, 28)),
])  # fmt: skip
def test_an_output_makes_an_image_file_whatever_its_length(name, shape):
    """An intensity that is missing or unknown is 0, and shifts no other."""
    problem, size = get_problem(name), int(np.prod(shape))
    intensities = np.random.default_rng(0).integers(0, 256, size)
    whole = list(map(str, intensities))
    for output, known in (
        (whole, ...), ([*whole, "7", "7"], ...), (whole[:5], np.arange(size) < 5),
        ([whole[0], "<unk>", *whole[2:]], np.arange(size) != 1),
    ):  # fmt: skip
        expected = np.where(True if known is ... else known, intensities, 0).reshape(shape)
        text = " ".join(output)
        np.testing.assert_array_equal(
            np.asarray(Image.open(io.BytesIO(problem.features["targets"].output_file(text)))), expected
        )
        assert problem.finish("", text) == Finished(text, repaired=output != whole)


# === Moving digits: bounces by hand, and clips and classes from small files of MNIST's format ===
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
