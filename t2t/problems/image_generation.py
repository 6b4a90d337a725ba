"""Image generation: an image as the sequence of its intensities, row by row, the channels of a pixel together.

One instance of `image_mnist_gen`, 784 numbers from 0 (paper) to 255 (ink):
    inputs   5
    targets  0 0 0 0 3 18 18 126 136 175 26 166 255 247 127 0 ...

The `plain` problems have no inputs: a language model generates images unconditionally. The metric `bits_per_dim`
includes the few bits of the end of sequence. Sources and licences: those of the images, see `mnist` and `cifar`.
Intensities as the words of a sequence: van den Oord et al. 2016, "Pixel recurrent neural networks" (arXiv:1601.06759).
"""

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from t2t.problems.array_inputs import MadeOfImages
from t2t.problems.base import Finished, Problem, Sample, Source
from t2t.problems.cifar import ImageCifar10
from t2t.problems.formats.images import png_file
from t2t.problems.mnist import ImageMnist, ImageMnistT10k
from t2t.problems.options import ProblemOptions
from t2t.problems.text_problems import TextProblem
from t2t.registry import register_problem
from t2t.specs.constants import INPUTS, TARGETS
from t2t.specs.features import ProblemSpec
from t2t.text.encoder import TextEncoder
from t2t.text.token import TokenEncoder

INTENSITIES = tuple(map(str, range(256)))


def intensities_text(image: np.ndarray) -> str:
    """Returns the intensities of an image (H, W, C) uint8 as words: row by row, pixel by pixel."""
    return " ".join(map(str, np.ravel(image).tolist()))


class ImageTargets(TextProblem):
    """The target side of problems that generate images; samples have `intensities_text` as `targets`."""

    text_features: tuple[str, ...] = (TARGETS,)
    vocab_kind = "token"
    shared_vocabulary = False
    metrics = ("neg_log_perplexity", "accuracy", "bits_per_dim")
    options_class = ProblemOptions
    chunk_size = 32
    output_suffix = ".png"

    def __init__(self, **options: Any):
        Problem.__init__(self, **options)  # the vocabularies have no options
        # Every image is kept: the limit is their size, end of sequence included.
        self.max_length = int(np.prod(self.target_shape())) + 1

    def target_shape(self) -> tuple[int, int, int]:
        """Returns (height, width, channels) of the generated images."""
        raise NotImplementedError

    @property
    def vocab_features(self) -> tuple[str, ...]:
        """None: all vocabularies are fixed."""
        return ()

    def build_encoders(self, source: Source) -> dict[str, TextEncoder]:
        """Returns the intensities."""
        return {TARGETS: TokenEncoder(INTENSITIES)}

    def nominal_spec(self) -> ProblemSpec:
        """The real features: the vocabularies are fixed."""
        return copy.copy(self).with_encoders(self.build_encoders(Source(Path(), random.Random()))).spec()

    def finish(self, source: str, output: str) -> Finished:
        """Returns the output unchanged; it counts as repaired if `output_file` has to fill, cut or replace."""
        words = output.split()
        return Finished(output, len(words) != int(np.prod(self.target_shape())) or not all(map(str.isdecimal, words)))

    def output_file(self, output: str) -> bytes:
        """Returns a PNG file of an output's intensities; surplus ones are dropped, missing and unknown ones are 0."""
        image = np.zeros(self.target_shape(), np.uint8)
        # An unknown one keeps its place, otherwise all that follow would be shifted.
        written = [int(word) if word.isdecimal() else 0 for word in output.split()[: image.size]]
        image.ravel()[: len(written)] = written
        return png_file(image)


class ClassToImage(MadeOfImages, ImageTargets):
    """Class to image: an image classification problem in reverse."""

    text_features: tuple[str, ...] = (INPUTS, TARGETS)

    def target_shape(self) -> tuple[int, int, int]:
        """That of the images."""
        return self.images.image_shape

    def generate_samples(self, split: str, source: Source) -> Iterator[Sample]:
        """Yields each image of a split, with its class if the problem has inputs."""
        for sample in self.made_of().generate_samples(split, source):
            known = {INPUTS: sample[TARGETS], TARGETS: intensities_text(sample[INPUTS])}
            yield {name: known[name] for name in self.text_features}

    def build_encoders(self, source: Source) -> dict[str, TextEncoder]:
        """Returns the words of the classes' names, and the intensities."""
        words = dict.fromkeys(word for label in self.images.class_labels for word in label.split())
        known = {INPUTS: TokenEncoder(words)} | super().build_encoders(source)
        return {name: known[name] for name in self.text_features}


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
