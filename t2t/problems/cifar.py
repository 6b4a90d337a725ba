"""Small photographs of things and animals: CIFAR-10 and CIFAR-100, 32 x 32 in colour.

One instance:
    inputs   a photograph of a frog, (32, 32, 3) intensities
    targets  frog

50,000 training images, of which the last 5,000 are held out as the dev split (He et al. 2016, "Deep residual learning",
section 4.2), and 10,000 test images. Source: Krizhevsky 2009, "Learning multiple layers of features from tiny images";
the original files, binary or Python version, or TensorFlow Datasets (`cifar10`, `cifar100`), whose training images come
in another order. Pickles are read without running the code that they name. Training randomly
shifts and flips the images of `image_cifar10` and `image_cifar100`, as He et al. do, but not those of the `plain`
problems.
Licence: none stated; to be cited where it is used.

The original files: https://www.cs.toronto.edu/~kriz/cifar.html. Binary: records of the label (CIFAR-100: coarse,
then fine), then 3,072 bytes of an image, red, green and blue planes of 32 rows each. Python: pickled dicts whose `data`
is an array (images, 3072) of bytes in that order.

Reading a pickle can run any code that its writer put there. Here the few names that these pickles need are replaced by
harmless stand-ins, and any other name is an error.
"""

import io
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import numpy as np

from t2t.errors import UserError, one_line
from t2t.files.trust import check_pickle
from t2t.problems.archives import find_first_existing, read_members
from t2t.problems.array_inputs import Image2Class
from t2t.problems.base import GenerationContext, Problem, Sample
from t2t.problems.preprocessors import Preprocessor, RandomCrop, RandomFlip
from t2t.problems.tfds import TfdsSplit, tfds_requirement
from t2t.registry import register_problem
from t2t.specs import DEV, INPUTS, TARGETS, TEST, TRAIN

SIDE = 32
"""Height and width of an image."""
_IMAGE = 3 * SIDE * SIDE


def read_binary(content: bytes, labels: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Reads a file of the binary version; `labels` bytes come before each image, of which the last is used.

    Returns:
        (images, 32, 32, 3) uint8, and (images,) uint8 labels.

    Raises:
        UserError: the file does not have a whole number of records.
    """
    if not content or len(content) % (labels + _IMAGE):
        raise UserError(
            f"{name}: {len(content):,} bytes are not a whole number of records of {labels + _IMAGE:,}",
            "the file is cut short or of another data set: download it again",
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, labels + _IMAGE)
    return _images(records[:, labels:]), records[:, labels - 1]


def read_python(content: bytes, key: str, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Reads a file of the Python version without running its code; `key` is `labels` or `fine_labels`.

    Returns:
        As `read_binary`.

    Raises:
        UserError: the file is damaged, names other code, or has other contents.
    """
    try:
        stream = io.BytesIO(content)
        check_pickle(stream)
        found = _Reader(stream, encoding="bytes").load()
        data, labels = (found[word.encode()] for word in ("data", key))
        images = np.frombuffer(data.content, np.uint8).reshape(-1, _IMAGE)
        numbers = np.array([int(label) for label in labels])
        if len(images) != len(numbers) or not ((numbers >= 0) & (numbers < 256)).all():
            raise ValueError(f"{len(images)} images and {len(numbers)} labels")
    except UserError as error:
        raise error.at(name) from None
    except Exception as error:  # a damaged pickle can raise anything
        raise UserError(
            f"{name}: is not a pickle of CIFAR ({type(error).__name__}: {one_line(error)[:100]})", "download it again"
        ) from None
    return _images(images), numbers.astype(np.uint8)


def _images(planes: np.ndarray) -> np.ndarray:
    return planes.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)


class _Array:
    """Stand-in for numpy's array: keeps the bytes that were pickled."""

    content = b""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.content = state[-1]


class _Type:
    """Stand-in for numpy's dtype; CIFAR's pickles have only one."""

    def __init__(self, *_: Any):
        pass

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        pass


def _array(*_: Any) -> _Array:
    return _Array()


def _encoded(text: str, encoding: str = "latin1") -> bytes:
    """Stand-in for `_codecs.encode`, by which Python 3 pickles bytes for Python 2."""
    return text.encode("latin1")


_STAND_INS = {
    ("numpy.core.multiarray", "_reconstruct"): _array,
    ("numpy._core.multiarray", "_reconstruct"): _array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _encoded,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Returns the stand-in of a name."""
        if (module, name) not in _STAND_INS:
            raise UserError(
                f"the pickle names {module}.{name}, which none of CIFAR's does", "it may run any code: not read"
            )
        return _STAND_INS[module, name]


_HELD_OUT = 5000
_CIFAR100 = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish
forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle
mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale
willow_tree wolf woman worm
"""
_TFDS_SPLITS = {TRAIN: f"train[:-{_HELD_OUT}]", DEV: f"train[-{_HELD_OUT}:]", TEST: "test"}


class Cifar(Image2Class):
    """Base class of CIFAR-10 and CIFAR-100."""

    splits = (TRAIN, DEV, TEST)
    image_shape = (SIDE, SIDE, 3)
    _not_of_data = ("archives",)
    archives: ClassVar[Sequence[str]] = ()
    """Folders and archives of the original files."""
    files: ClassVar[dict[str, Sequence[str]]] = {}
    """By `train` and `test`, the names of the files, without `.bin`."""
    label_bytes: ClassVar[int] = 1
    """Bytes of labels before each image of the binary version."""
    label_key: ClassVar[str] = "labels"
    """Key of the labels in the Python version."""
    dataset: ClassVar[str] = ""
    """Name in TensorFlow Datasets."""

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the images of a split, from the original files if they exist, else through TFDS."""
        self.check_split(split)
        data_path = find_first_existing(context.tmp_dir, self.archives)
        if data_path is None:
            instead = f"; or put one of {', '.join(self.archives)} into {context.tmp_dir}"
            for example in TfdsSplit(self.name, self.dataset, _TFDS_SPLITS[split], context, instead).read():
                yield {INPUTS: example["image"], TARGETS: self.class_labels[int(example["label"])]}
            return
        images, labels = self._read(data_path, TEST if split == TEST else TRAIN)
        held_out = min(_HELD_OUT, len(images) // 10)  # smaller files than the original ones work, too
        part = {TRAIN: slice(0, -held_out or None), DEV: slice(len(images) - held_out, None), TEST: slice(None)}[split]
        for image, label in zip(images[part], labels[part], strict=True):
            yield {INPUTS: image, TARGETS: self.class_labels[label]}

    def preprocessors(self) -> Sequence[Preprocessor]:
        """Shifts images by up to 4 pixels and flips them at random (He et al. 2016, section 4.2)."""
        return RandomCrop(padding=4), RandomFlip()

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the archive, or the files of the folder, that is read."""
        data_path = find_first_existing(tmp_dir, self.archives)
        if data_path is None or data_path.is_file():
            return {data_path.name: data_path} if data_path else {}
        names = [name + end for names in self.files.values() for name in names for end in ("", ".bin")]
        return {name: data_path / name for name in names if (data_path / name).is_file()}

    def requirements(self) -> str:
        """Returns which files are looked for, and what else is read."""
        return f"one of {', '.join(self.archives)} in --tmp_dir; else {tfds_requirement(self.dataset)}"

    def _read(self, data_path: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
        wanted = self.files[part]
        found = read_members(data_path, lambda path: PurePosixPath(path).name.removesuffix(".bin") in wanted)
        by_name = {PurePosixPath(path).name: content for path, content in found.items()}
        parts = []
        for name in wanted:
            if name + ".bin" in by_name:
                parts.append(read_binary(by_name[name + ".bin"], self.label_bytes, f"{name}.bin in {data_path}"))
            elif name in by_name:
                parts.append(read_python(by_name[name], self.label_key, f"{name} in {data_path}"))
            else:
                raise UserError(f"{self.name}: {data_path} has neither {name} nor {name}.bin", "download it again")
        images, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        if labels.max(initial=0) >= len(self.class_labels):
            raise UserError(f"{self.name}: {data_path} has a label {labels.max()}", "it is of another data set")
        return images, labels


@register_problem("image_cifar10")
class ImageCifar10(Cifar):
    """Small photographs in 10 classes (CIFAR-10, 50,000 images of 32 x 32)."""

    class_labels = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
    archives = ("cifar-10-batches-bin", "cifar-10-batches-py", "cifar-10-binary.tar.gz", "cifar-10-python.tar.gz")
    files = {TRAIN: tuple(f"data_batch_{number}" for number in range(1, 6)), TEST: ("test_batch",)}
    dataset = "cifar10"


@register_problem("image_cifar100")
class ImageCifar100(Cifar):
    """Small photographs in 100 classes (CIFAR-100, 50,000 images of 32 x 32)."""

    class_labels = tuple(_CIFAR100.split())
    archives = ("cifar-100-binary", "cifar-100-python", "cifar-100-binary.tar.gz", "cifar-100-python.tar.gz")
    files = {TRAIN: ("train",), TEST: ("test",)}
    label_bytes, label_key = 2, "fine_labels"
    dataset = "cifar100"


@register_problem("image_cifar10_plain")
class ImageCifar10Plain(ImageCifar10):
    """Small photographs in 10 classes (CIFAR-10), without random shifts and flips in training."""

    preprocessors = Problem.preprocessors


@register_problem("image_cifar100_plain")
class ImageCifar100Plain(ImageCifar100):
    """Small photographs in 100 classes (CIFAR-100), without random shifts and flips in training."""

    preprocessors = Problem.preprocessors
