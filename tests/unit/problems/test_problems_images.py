"""Problems with images, from small files of the original formats and from TFDS's own files."""

import numpy as np
import pytest

from t2t.data.generate import generate
from t2t.data.manifest import load_encoders, read_manifest
from t2t.data.reader import SplitReader
from t2t.problems.array_inputs import ImageInputs
from t2t.problems.base import Problem
from t2t.problems.formats.images import png_file
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


IMAGE = np.zeros((2, 2, 1), np.uint8)


@pytest.mark.parametrize(
    ("sample", "names"),
    [
        ({"inputs": IMAGE.astype(float), "targets": "1"}, "'inputs' float64 (2, 2, 1)"),
        ({"inputs": IMAGE[:, :, 0], "targets": "1"}, "'inputs' uint8 (2, 2)"),
        ({"inputs": IMAGE[:0], "targets": "1"}, "'inputs' uint8 (0, 2, 1)"),
        ({"inputs": "a", "targets": "1"}, "'inputs' 'a'"),
        ({"inputs": IMAGE.repeat(3, 2), "targets": "1"}, "'inputs' 3 1"),
        ({"inputs": IMAGE, "targets": "10"}, "'targets' '10' class_labels (0, 1, 2,"),
        ({"inputs": IMAGE, "targets": 1}, "'targets' 1 class_labels"),
        ({"inputs": IMAGE}, "'targets' class_labels"),
        ({"targets": "1"}, "'inputs'"),
        ([], "list dict"),
    ],
)
def test_what_is_wrong_with_a_sample_is_named(sample, names):
    fault = get_problem("image_mnist").sample_fault(sample)
    assert all(name in fault for name in names.split())
    assert get_problem("image_mnist").sample_fault({"inputs": IMAGE, "targets": "1"}) == ""


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
