"""Image generation: an image as the sequence of its intensities, row by row, the channels of a pixel together.

One instance of `image_mnist_gen`, 784 numbers from 0 (paper) to 255 (ink):
    inputs   5
    targets  0 0 0 0 3 18 18 126 136 175 26 166 255 247 127 0 ...

The `plain` problems have no inputs: a language model generates images unconditionally. The metric `bits_per_dim`
includes the few bits of the end of sequence. Sources and licences: those of the images, see `mnist` and `cifar`.
Intensities as the words of a sequence: van den Oord et al. 2016, "Pixel recurrent neural networks" (arXiv:1601.06759).
"""

import functools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from t2t.features.feature import Feature
from t2t.features.image import ImageCodes, intensities_text
from t2t.features.text import Text
from t2t.problems.array_inputs import Image2Class
from t2t.problems.base import Sample, Source
from t2t.problems.cifar import ImageCifar10
from t2t.problems.mnist import ImageMnist, ImageMnistT10k
from t2t.problems.options import ProblemOptions
from t2t.problems.text_problems import Text2Text
from t2t.registry import register_problem
from t2t.specs.constants import DEV, INPUTS, TARGETS, TEST, TRAIN


class ClassToImage(Text2Text):
    """Class to image: an image classification problem in reverse."""

    images: ClassVar[type[Image2Class]]
    """The problem whose samples are used."""
    splits: tuple[str, ...] = (TRAIN, DEV, TEST)
    vocab_kind = "token"
    shared_vocabulary = False
    metrics = ("neg_log_perplexity", "accuracy", "bits_per_dim")
    options_class = ProblemOptions

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.max_length = math.prod(self.images.image_shape) + 1  # of an image and its end of sequence: all are kept

    @functools.cached_property
    def features(self) -> Mapping[str, Feature]:
        """The words of the classes' names, if the problem has inputs, and the intensities."""
        words = dict.fromkeys(word for label in self.images.class_labels for word in label.split())
        known = {INPUTS: Text(words=tuple(words), shared=False), TARGETS: ImageCodes(shape=self.images.image_shape)}
        return {name: known[name] for name in self.text_features}

    def generate_samples(self, split: str, source: Source) -> Iterator[Sample]:
        """Yields each image of a split, with its class if the problem has inputs."""
        for sample in images_of(self).generate_samples(split, source):
            known = {INPUTS: sample[TARGETS], TARGETS: intensities_text(sample[INPUTS])}
            yield {name: known[name] for name in self.text_features}

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the files of the images."""
        return images_of(self).raw_files(tmp_dir)

    def requirements(self) -> str:
        """Returns what the images need."""
        return images_of(self).requirements()


def images_of(problem: Any) -> Image2Class:
    """Returns the problem of a problem's `images`, under the name of that problem for messages."""
    images: Image2Class = problem.images()
    images.name = problem.name
    return images


@register_problem
class ImageMnistGen(ClassToImage):
    """Generates handwritten digits (MNIST): 784 intensities from a digit."""

    images = ImageMnist


@register_problem
class ImageMnistPlainGen(ClassToImage):
    """Generates handwritten digits (MNIST) without inputs: 784 intensities."""

    images = ImageMnist
    text_features = (TARGETS,)


@register_problem("image_mnist_t10k_gen")
class ImageMnistT10kGen(ClassToImage):
    """Generates handwritten digits, with only MNIST's 10,000 test images: 784 intensities from a digit."""

    images = ImageMnistT10k
    splits = ImageMnistT10k.splits


@register_problem("image_cifar10_gen")
class ImageCifar10Gen(ClassToImage):
    """Generates small photographs (CIFAR-10): 3,072 intensities from a class."""

    images = ImageCifar10


@register_problem("image_cifar10_plain_gen")
class ImageCifar10PlainGen(ClassToImage):
    """Generates small photographs (CIFAR-10) without inputs: 3,072 intensities."""

    images = ImageCifar10
    text_features = (TARGETS,)
