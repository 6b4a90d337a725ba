"""Digits and articles of clothing: MNIST and Fashion-MNIST, grey images of 28 x 28.

One instance:
    inputs   an image of a handwritten 5, (28, 28, 1) intensities from 0 (paper) to 255 (ink)
    targets  5

60,000 training images, of which the last 5,000 are held out as the dev split, and 10,000 test images.
`image_mnist_t10k` needs only the test files: every fifth image is for dev, the other 8,000 for training.
Sources: LeCun, Bottou, Bengio and Haffner 1998, "Gradient-based learning applied to document recognition"; Xiao, Rasul
and Vollgraf 2017, "Fashion-MNIST" (arXiv:1708.07747); the original files, or TensorFlow Datasets (`mnist`,
`fashion_mnist`), whose training images come in another order.
Licence: CC BY-SA 3.0 (MNIST), MIT (Fashion-MNIST).

IDX, the format of MNIST's files: a magic number, the sizes of the axes, then the values.

Source: LeCun, Cortes and Burges, http://yann.lecun.com/exdb/mnist/: two zero bytes, the type (0x08: unsigned byte), the
number of axes, then each size as four bytes, big-endian.
"""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from t2t.errors import UserError
from t2t.files.lines import errors_of_reading, gunzipped
from t2t.problems.archives import find_first_existing
from t2t.problems.array_inputs import Image2Class
from t2t.problems.base import GenerationContext, Sample
from t2t.problems.tfds import TfdsSplit, tfds_requirement
from t2t.registry import register_problem
from t2t.specs import DEV, INPUTS, TARGETS, TEST, TRAIN

_HELD_OUT = 5000
_TFDS_SPLITS = {TRAIN: f"train[:-{_HELD_OUT}]", DEV: f"train[-{_HELD_OUT}:]", TEST: "test"}
_TRAIN_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
_TEST_FILES = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


class IdxImages(Image2Class):
    """Base class of data sets in the format of MNIST's files."""

    splits: tuple[str, ...] = (TRAIN, DEV, TEST)
    image_shape = (28, 28, 1)
    _not_of_data = ("folders", "instead")
    folders: ClassVar[Sequence[str]] = ()
    """Folders under `--tmp_dir` in which the files are looked for."""
    dataset: ClassVar[str] = ""
    """Name in TensorFlow Datasets."""
    instead: ClassVar[str] = ""
    """What else to do if some files are missing, for the message."""

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the images of a split, from the original files if they exist, else through TFDS."""
        self.check_split(split)
        files = _TEST_FILES if split == TEST else _TRAIN_FILES
        if not self._files(context.tmp_dir):
            instead = f"; or put {', '.join(_TRAIN_FILES + _TEST_FILES)}, plain or .gz, into {self._place(context)}"
            for example in TfdsSplit(self.name, self.dataset, _TFDS_SPLITS[split], context, instead).read():
                yield self._sample(example["image"], example["label"])
            return
        images, labels = self._read(files, context)
        held_out = min(_HELD_OUT, len(images) // 12)  # smaller files than the original ones work, too
        part = {TRAIN: slice(0, -held_out or None), DEV: slice(len(images) - held_out, None), TEST: slice(None)}[split]
        for image, label in zip(images[part], labels[part], strict=True):
            yield self._sample(image[:, :, None], label)

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the original files that exist."""
        return self._files(tmp_dir)

    def requirements(self) -> str:
        """Returns which files are looked for, and what else is read."""
        files = f"{', '.join(_TRAIN_FILES + _TEST_FILES)}, plain or .gz, in --tmp_dir/{self.folders[0]}"
        return f"{files}; else {tfds_requirement(self.dataset)}"

    def _sample(self, image: np.ndarray, label: Any) -> Sample:
        if int(label) >= len(self.class_labels):
            raise UserError(f"{self.name}: a label {int(label)}", f"the labels are 0 to {len(self.class_labels) - 1}")
        return {INPUTS: image, TARGETS: self.class_labels[int(label)]}

    def _place(self, context: GenerationContext) -> Path:
        return Path(context.tmp_dir) / self.folders[0]

    def _files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the files that exist, by their names without `.gz`."""
        found = {}
        for name in _TRAIN_FILES + _TEST_FILES:
            dotted = name.replace("-idx", ".idx")  # as some programs unpack them
            candidates = [
                f"{folder}/{form}{end}" for folder in self.folders for form in (name, dotted) for end in ("", ".gz")
            ]
            if path := find_first_existing(tmp_dir, candidates):
                found[name] = path
        return found

    def _read(self, names: tuple[str, str], context: GenerationContext) -> tuple[np.ndarray, np.ndarray]:
        """Returns (images, 28, 28) and (images,), both uint8."""
        files = self._files(context.tmp_dir)
        if missing := [name for name in names if name not in files]:
            raise UserError(
                f"{self.name}: {', '.join(files)} found, {' and '.join(missing)} (plain or .gz) missing from "
                f"{next(iter(files.values())).parent}",
                f"put them there{self.instead}",
            )
        images, labels = read_idx(files[names[0]], axes=3), read_idx(files[names[1]], axes=1)
        if len(images) != len(labels):
            raise UserError(
                f"{files[names[0]]} has {len(images):,} images and {files[names[1]]} {len(labels):,} labels",
                "they must be of one set: download them again",
            )
        return images, labels


@register_problem
class ImageMnist(IdxImages):
    """Handwritten digits (MNIST, 60,000 images of 28 x 28)."""

    class_labels = tuple("0123456789")
    folders = ("mnist", ".")
    dataset = "mnist"
    instead = ", or use image_mnist_t10k, which needs only the test files"


@register_problem("image_mnist_t10k")
class ImageMnistT10k(ImageMnist):
    """Handwritten digits, only MNIST's 10,000 test images: 8,000 for training, every fifth for evaluation."""

    splits = (TRAIN, DEV)

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields every fifth image for dev, the others for training."""
        self.check_split(split)
        whole = ImageMnist()
        whole.name = self.name
        for number, sample in enumerate(whole.generate_samples(TEST, context)):
            if (number % 5 == 4) == (split == DEV):
                yield sample


@register_problem
class ImageFashionMnist(IdxImages):
    """Articles of clothing (Fashion-MNIST, 60,000 images of 28 x 28)."""

    class_labels = (
        "t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
    )  # fmt: skip
    folders = ("fashion_mnist", "fashion-mnist", "fashion")
    """Not `--tmp_dir` itself: MNIST's files have the same names."""
    dataset = "fashion_mnist"


_UNSIGNED_BYTES = 0x08
_MOST_BYTES = 1 << 30
"""Largest size of a file, unpacked."""


def read_idx(path: Path | str, axes: int) -> np.ndarray:
    """Reads a file of unsigned bytes, plain or gzip, which is detected from the content.

    Returns:
        A uint8 array with so many axes.

    Raises:
        UserError: the file is missing, or is not a complete IDX file with so many axes; the message names it.
    """
    with errors_of_reading(path):
        content = gunzipped(Path(path).read_bytes(), path, _MOST_BYTES)
    head = 4 + 4 * axes
    if content[:4] != bytes((0, 0, _UNSIGNED_BYTES, axes)) or len(content) < head:
        raise UserError(
            f"{path}: begins with {content[:4].hex(' ') or 'nothing'}, and an IDX file of {axes} axes of bytes with "
            f"00 00 08 {axes:02d}",
            "images have 3 axes and labels 1: give the other file, or download it again",
        )
    shape = struct.unpack(f">{axes}I", content[4:head])
    if len(content) - head != int(np.prod(shape, dtype=np.int64)):
        raise UserError(
            f"{path}: holds {len(content) - head:,} bytes after its head, which says {' x '.join(map(str, shape))}",
            "it is cut short or damaged: download it again",
        )
    return np.frombuffer(content, np.uint8, offset=head).reshape(shape)
