"""Images as sequences of intensities, from small files of MNIST's format."""

import io

import numpy as np
import pytest
from PIL import Image

from t2t.data.generate import generate
from t2t.data.manifest import read_manifest
from t2t.data.reader import SplitReader
from t2t.problems.base import Finished
from t2t.runs.names import get_hparams, get_problem
from tests.errors import refused


def test_an_image_is_its_rows_one_after_the_other(digits, drawn):
    sample = drawn("image_mnist_gen", "test")[3]
    assert sample["inputs"] == "3"
    assert sample["targets"].split()[:29] == [*map(str, digits[3, 0]), str(digits[3, 1, 0])]
    assert sample["targets"] == " ".join(str(i) for i in digits[3].ravel())
    assert drawn("image_mnist_plain_gen", "test")[3] == {"targets": sample["targets"]}
    assert drawn("image_mnist_t10k_gen", "dev")[0]["inputs"] == "4"


@pytest.mark.parametrize("name", ["image_mnist_gen", "image_mnist_plain_gen"])
def test_the_whole_way_to_stored_intensities_and_back(digits, tmp_path, name):
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


def test_images_have_no_vocabulary_of_text():
    with refused("'vocab_kind'", "ImageMnistGen"):
        get_problem("image_mnist_gen", {"vocab_kind": "byte"})


@pytest.mark.parametrize(("name", "shape"), [
    ("image_mnist_gen", (28, 28)), ("image_cifar10_gen", (32, 32, 3)), ("video_moving_mnist_next", (28, 28)),
])  # fmt: skip
def test_an_output_makes_an_image_file_whatever_its_length(name, shape):
    problem, size = get_problem(name), int(np.prod(shape))
    intensities = np.random.default_rng(0).integers(0, 256, size)
    for written in (size, size + 3, 5):
        output = " ".join([*map(str, intensities[:written]), *["7"] * (written - size)])
        expected = np.where(np.arange(size) < written, intensities, 0).reshape(shape)
        np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(problem.output_file(output)))), expected)
        assert problem.finish("", output) == Finished(output, repaired=written != size)


def test_an_unknown_intensity_is_0_and_shifts_no_other():
    problem = get_problem("image_mnist_gen")
    output = " ".join(["3", "<unk>", *["9"] * 782])
    image = np.asarray(Image.open(io.BytesIO(problem.output_file(output)))).ravel()
    assert image.tolist() == [3, 0, *[9] * 782]
    assert problem.finish("", output) == Finished(output, repaired=True)
