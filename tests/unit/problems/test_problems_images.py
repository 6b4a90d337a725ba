"""Problems with images, from small files of the original formats and from TFDS's own files."""

import gzip
import pickle
import random
import tarfile

import numpy as np
import pytest

from t2t.data.generate import generate
from t2t.data.manifest import load_encoders, read_manifest
from t2t.data.reader import SplitReader
from t2t.errors import UserError
from t2t.problems.array_inputs import ImageInputs
from t2t.problems.base import Problem, Source
from t2t.problems.formats.images import png_file
from t2t.runs.names import get_problem
from t2t.specs.features import FeatureKind
from tests.builders import idx


def write_mnist(folder, train=36, test=10, pack=gzip.compress, end=".gz"):
    """Image n is filled with n, its label is n modulo 10."""
    folder.mkdir(exist_ok=True)
    for stem, count in (("train", train), ("t10k", test)):
        images = np.arange(count, dtype=np.uint8)[:, None, None] * np.ones((1, 28, 28), np.uint8)
        (folder / f"{stem}-images-idx3-ubyte{end}").write_bytes(pack(idx(images)))
        (folder / f"{stem}-labels-idx1-ubyte{end}").write_bytes(pack(idx(np.arange(count, dtype=np.uint8) % 10)))


def seen(samples):
    return [(int(sample["inputs"].max()), sample["targets"]) for sample in samples]


@pytest.mark.parametrize("place", ["mnist", "."])
def test_mnist_holds_the_last_images_out(tmp_path, drawn, place):
    write_mnist(tmp_path / place)
    assert seen(drawn("image_mnist", "train")) == [(n, str(n % 10)) for n in range(33)]
    assert seen(drawn("image_mnist", "dev")) == [(n, str(n % 10)) for n in range(33, 36)]
    assert seen(drawn("image_mnist", "test")) == [(n, str(n)) for n in range(10)]
    assert drawn("image_mnist", "dev")[0]["inputs"].shape == (28, 28, 1)


def test_the_test_images_alone_are_enough_for_one_problem(tmp_path, drawn):
    write_mnist(tmp_path, pack=bytes, end="")
    for path in tmp_path.glob("train-*"):
        path.unlink()
    assert [n for n, _ in seen(drawn("image_mnist_t10k", "train"))] == [0, 1, 2, 3, 5, 6, 7, 8]
    assert [n for n, _ in seen(drawn("image_mnist_t10k", "dev"))] == [4, 9]
    with pytest.raises(
        UserError,
        match=r"image_mnist: t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte found, train-images-idx3-ubyte and "
        r"train-labels-idx1-ubyte \(plain or .gz\) missing from .*; put them there, or use image_mnist_t10k",
    ):
        drawn("image_mnist", "train")


def test_files_that_do_not_belong_together(tmp_path, drawn):
    write_mnist(tmp_path)
    other = tmp_path / "t10k-labels-idx1-ubyte.gz"
    other.write_bytes(gzip.compress(idx(np.zeros(9, np.uint8))))
    with pytest.raises(UserError, match=r"has 10 images and .* 9 labels; they must be of one set"):
        drawn("image_mnist", "test")
    other.write_bytes(gzip.compress(idx(np.full(10, 11, np.uint8))))
    with pytest.raises(UserError, match="image_mnist: a label 11; the labels are 0 to 9"):
        drawn("image_mnist", "test")


def test_fashion_has_a_folder_of_its_own(tmp_path, drawn):
    write_mnist(tmp_path)
    write_mnist(tmp_path / "fashion-mnist", test=9)
    assert [name for _, name in seen(drawn("image_fashion_mnist", "test"))][-2:] == ["sneaker", "bag"]
    assert len(drawn("image_mnist", "test")) == 10


def test_the_whole_way_to_stored_images_and_back(tmp_path):
    write_mnist(tmp_path / "raw")
    problem = get_problem("image_mnist")
    manifest = generate(problem, tmp_path, tmp_path / "raw", workers=1)
    assert {split: record.examples for split, record in manifest.splits.items()} == {"train": 33, "dev": 3, "test": 10}
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


def cifar_images(count, first=0):
    return np.arange(first, first + count, dtype=np.uint8)[:, None] * np.ones((1, 3072), np.uint8)


@pytest.mark.parametrize("form", ["folder", "archive"])
@pytest.mark.parametrize("version", ["binary", "python"])
def test_cifar10_of_both_versions(tmp_path, drawn, version, form):
    name = {"binary": "cifar-10-batches-bin", "python": "cifar-10-batches-py"}[version]
    (tmp_path / name).mkdir()
    for number, stem in enumerate([f"data_batch_{n}" for n in range(1, 6)] + ["test_batch"]):
        images, labels = cifar_images(4, 4 * number), np.arange(4) + number
        if version == "binary":
            content = np.concatenate([labels[:, None].astype(np.uint8), images], axis=1).tobytes()
            (tmp_path / name / f"{stem}.bin").write_bytes(content)
        else:
            content = pickle.dumps({b"data": images, b"labels": labels.tolist()}, 2)
            (tmp_path / name / stem).write_bytes(content)
    if form == "archive":
        with tarfile.open(tmp_path / f"cifar-10-{version}.tar.gz", "w:gz") as archive:
            archive.add(tmp_path / name, name)
        (tmp_path / name).rename(tmp_path / "away")
    classes = get_problem("image_cifar10").class_labels
    expected = [(4 * batch + n, classes[batch + n]) for batch in range(6) for n in range(4)]
    assert seen(drawn("image_cifar10", "train")) == expected[:18]
    assert seen(drawn("image_cifar10", "dev")) == expected[18:20]
    assert seen(drawn("image_cifar10", "test")) == expected[20:]


def test_cifar100_takes_the_fine_labels(tmp_path, drawn):
    (tmp_path / "cifar-100-binary").mkdir()
    labels = np.array([[1, 99], [2, 0]], np.uint8)
    content = np.concatenate([labels, cifar_images(2)], axis=1).tobytes()
    (tmp_path / "cifar-100-binary" / "test.bin").write_bytes(content)
    assert [name for _, name in seen(drawn("image_cifar100", "test"))] == ["worm", "apple"]
    with pytest.raises(UserError, match=r"image_cifar100: .*cifar-100-binary has neither train nor train.bin"):
        drawn("image_cifar100", "train")


def test_images_through_tfds(tmp_path, drawn, prepared_tfds):
    def example(number):
        return {"image": np.full((28, 28, 1), number, np.uint8), "label": number % 10}

    prepared_tfds(tmp_path, "fashion_mnist", {"train": map(example, range(3)), "test": map(example, range(2))})
    assert sorted(seen(drawn("image_fashion_mnist", "test"))) == [(0, "t-shirt"), (1, "trouser")]


def test_imagenet_is_cut_to_its_middle_and_named_by_tfds(tmp_path, prepared_tfds):
    left_and_right = np.zeros((20, 40, 3), np.uint8)
    left_and_right[:, 10:30] = 200
    example = {"image": left_and_right, "label": 1, "file_name": "a.jpg"}
    prepared_tfds(tmp_path, "imagenet2012", {"train": [example], "validation": [example], "test": [example]})
    problem = get_problem("image_imagenet32")
    assert problem.declared_spec().targets.vocab_size == 1000
    source = Source(tmp_path, random.Random(0))
    problem.with_encoders(problem.build_encoders(source))
    assert problem.spec().targets.vocab_size == 1000
    [sample] = problem.generate_samples("dev", source)
    assert sample["targets"] == "n01443537"
    [encoded] = problem.encode_samples([sample])
    assert encoded["inputs"].shape == (32, 32, 3)
    assert encoded["inputs"].min() > 150  # JPEG smears a little; squashed, half of it would be black
    assert problem.decode_target(encoded["targets"]) == "n01443537"


def test_captions_come_with_their_photograph(tmp_path, drawn, prepared_tfds):
    example = {
        "image": np.full((30, 50, 3), 90, np.uint8), "image/filename": "a.jpg", "image/id": 1,
        "captions": [{"id": 1, "text": "A cat .\n"}, {"id": 2, "text": " Two  cats."}],
        "objects": [],
    }  # fmt: skip
    prepared_tfds(tmp_path, "coco_captions/2014", {key: [example] for key in ("train", "val", "test", "restval")})
    samples = drawn("image_ms_coco_captions", "dev")
    assert [sample["targets"] for sample in samples] == ["A cat .", "Two cats."]
    problem = get_problem("image_ms_coco_captions", {"vocab_kind": "byte"})
    problem.with_encoders(problem.build_encoders(Source(tmp_path, random.Random(0))))
    encoded = problem.encode_samples(samples)
    assert encoded[0]["inputs"].shape == (128, 128, 3)
    assert problem.decode_target(encoded[1]["targets"]) == "Two cats."
    spec = problem.spec()
    assert (list(spec.features), spec.shared_vocabulary) == (["inputs", "targets"], False)
    assert (spec.inputs.kind, spec.targets.kind) == (FeatureKind.IMAGE, FeatureKind.TOKENS)


def test_a_vocabulary_is_learnt_from_all_captions_however_large_the_photographs_are(tmp_path, prepared_tfds):
    noise = np.random.default_rng(0).integers(256, size=(64, 64, 3), dtype=np.uint8)
    examples = [
        {"image": noise, "image/filename": f"{n}.jpg", "image/id": n, "captions": [{"id": n, "text": f"cat {n}"}],
         "objects": []}
        for n in range(8)
    ]  # fmt: skip
    splits = dict.fromkeys(("train", "val", "test", "restval"), examples)
    prepared_tfds(tmp_path, "coco_captions/2014", splits)
    source = Source(tmp_path, random.Random(0), enough_bytes=8 * len("cat 0"))
    found = get_problem("image_ms_coco_captions").generate_samples("train", source)
    assert {sample["targets"] for sample in found} == {f"cat {n}" for n in range(8)}
    assert source.skipped == 0


IMAGE = np.zeros((2, 2, 1), np.uint8)


@pytest.mark.parametrize(
    ("sample", "fault"),
    [
        ({"inputs": IMAGE.astype(float), "targets": "1"}, "has float64 of shape (2, 2, 1) for 'inputs'; an image is"),
        ({"inputs": IMAGE[:, :, 0], "targets": "1"}, "has uint8 of shape (2, 2) for 'inputs'; an image is"),
        ({"inputs": IMAGE[:0], "targets": "1"}, "has uint8 of shape (0, 2, 1) for 'inputs'; an image is"),
        ({"inputs": "a", "targets": "1"}, "has 'a' for 'inputs'; an image is a numpy array (height, width, channels)"),
        ({"inputs": IMAGE.repeat(3, 2), "targets": "1"}, "has an image of 3 channels for 'inputs'; it must have 1"),
        ({"inputs": IMAGE, "targets": "10"}, "has '10' for 'targets', which is none of its class_labels (0, 1, 2,"),
        ({"inputs": IMAGE, "targets": 1}, "has 1 for 'targets', which is none of its class_labels"),
        ({"inputs": IMAGE}, "has no 'targets'; it must be one of its class_labels"),
        ({"targets": "1"}, "has no 'inputs'"),
        ([], "is of type list; it must be a dict"),
    ],
)
def test_a_sample_that_is_none_is_told(sample, fault):
    assert get_problem("image_mnist").sample_fault(sample).startswith(fault)
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
    with pytest.raises(UserError, match=f"a: inputs of {problem} are not read from files; decode a split of"):
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
