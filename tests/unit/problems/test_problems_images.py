"""Problems with arrays: images, clips and sounds."""

from pathlib import Path

import numpy as np
import pytest

from t2t.data.generate import generate
from t2t.data.manifest import load_encoders, read_manifest
from t2t.data.reader import SplitReader
from t2t.problems.array_inputs import ImageInputs, Video2Class
from t2t.problems.base import Problem
from t2t.problems.formats.images import png_file, resized
from t2t.runs.names import get_problem
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


def test_frames_of_another_size_are_resized_one_by_one():
    problem = Clips()
    problem.with_encoders(problem.build_encoders(None))
    clip = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3)).astype(np.uint8)
    (encoded,) = problem.encode_samples([{"inputs": clip, "targets": "b"}])
    assert int(encoded["targets"]) == 1
    np.testing.assert_array_equal(encoded["inputs"], [resized(frame, 2, 4) for frame in clip])


def test_an_image_file_is_read_as_a_model_reads_it(tmp_path):
    image = np.random.default_rng(0).integers(0, 256, (28, 28, 1)).astype(np.uint8)
    (tmp_path / "a.png").write_bytes(png_file(image))
    (tmp_path / "b.png").write_bytes(png_file(image.repeat(2, 0).repeat(2, 1)))
    problem = get_problem("image_mnist")
    np.testing.assert_array_equal(problem.read_input(tmp_path / "a.png"), image)
    assert problem.read_input(tmp_path / "b.png").shape == (28, 28, 1)


@pytest.mark.parametrize("problem", ["video_moving_mnist_class", "text2text_files"])
def test_other_inputs_are_not_read_from_files(problem, tmp_path):
    with refused(tmp_path / "a", problem):
        get_problem(problem).read_input(tmp_path / "a")


def test_images_of_targets_that_declare_nothing_have_no_declared_features():
    class Described(ImageInputs, Problem):
        image_shape = (4, 4, 3)

        def generate_samples(self, split, source):
            yield from ()

        def build_encoders(self, source):
            return {}

    assert Described().declared_spec() is None
    assert Described().nominal_spec() is None
