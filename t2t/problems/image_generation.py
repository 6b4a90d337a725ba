"""Image generation: an image as the sequence of its intensities, row by row, the channels of a pixel together.

One instance of `image_mnist_gen`, 784 numbers from 0 (paper) to 255 (ink):
    inputs   5
    targets  0 0 0 0 3 18 18 126 136 175 26 166 255 247 127 0 ...

The `plain` problems have no inputs: a language model generates images unconditionally. The metric `bits_per_dim`
includes the few bits of the end of sequence. Sources and licences: those of the images, see `mnist` and `cifar`.
Intensities as the words of a sequence: van den Oord et al. 2016, "Pixel recurrent neural networks" (arXiv:1601.06759).

Moving MNIST: clips of a handwritten digit that moves at a constant velocity and bounces off the walls.

One instance of `video_moving_mnist_class`:
    inputs   a clip in which a 7 starts towards the upper left, (8, 28, 28, 1) intensities
    targets  7 up left

One instance of `video_moving_mnist_next`:
    inputs   the first frames of such a clip, (4, 28, 28, 1) intensities
    targets  0 0 0 0 3 18 18 126 136 175 26 ..., the intensities of the next frame, row by row

A frame shows which digit it is, not where the digit goes. Start and direction are independent, so that the first frame
says nothing about the direction: from it alone, at most a quarter of the clips can be classified correctly.

Source: Srivastava, Mansimov and Salakhutdinov 2015, "Unsupervised learning of video representations using LSTMs"
(arXiv:1502.04681), section 4. Their clips have 20 frames of 64 x 64 pixels and two digits of 28 x 28, which may
overlap. They draw the angle and the length of a velocity; here the velocities along rows and columns are drawn, so that
no digit moves along a wall. Images and licence are those of MNIST, see `mnist`.
"""

import functools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import numpy as np

from t2t.features.feature import Feature
from t2t.features.image import ImageCodes, Video, intensities_text, resized
from t2t.features.text import Text
from t2t.problems.array_inputs import Image2Class, Video2Class
from t2t.problems.base import GenerationContext, Problem, Sample, subclass
from t2t.problems.cifar import ImageCifar10
from t2t.problems.mnist import ImageMnist, ImageMnistT10k
from t2t.problems.options import ProblemOptions
from t2t.problems.text_problems import Text2Text
from t2t.registry import register_problem
from t2t.specs import DEV, INPUTS, TARGETS, TEST, TRAIN


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

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields each image of a split, with its class if the problem has inputs."""
        for sample in images_of(self).generate_samples(split, context):
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


SIDE, DIGIT_SIDE = 28, 14
"""Side in pixels of a frame, and of a digit in it, which is half as large as in MNIST."""
SLOWEST, FASTEST = 1.0, 3.0
"""Speed in pixels per frame, along rows and along columns."""
DIRECTIONS = tuple(f"{down} {across}" for down in ("up", "down") for across in ("left", "right"))

Pair = tuple[float, float]
"""Of rows and of columns."""


def bounced(start: float, velocity: float, free: float, frames: int) -> np.ndarray:
    """Returns the position in each frame of a point between walls at 0 and `free`, (frames,) float64.

    The way to the other wall and back is like a circle of length 2 * `free`, on which the velocity is constant.
    """
    positions: np.ndarray = free - np.abs(free - (start + velocity * np.arange(frames)) % (2 * free))
    return positions


def moving(image: np.ndarray, side: int, starts: Pair, velocities: Pair, frames: int) -> np.ndarray:
    """Returns a clip of an image that moves over a black background and bounces off the edges.

    Args:
        image: (height, width, channels) uint8.
        side: rows and columns of a frame.
        starts: row and column of the image's upper left corner in the first frame.
        velocities: rows and columns that it moves per frame; positions are rounded to whole pixels.
        frames: number of frames.

    Returns:
        (frames, side, side, channels) uint8.
    """
    height, width, channels = image.shape
    rows, columns = (
        np.rint(bounced(start, velocity, side - size, frames)).astype(int)
        for start, velocity, size in zip(starts, velocities, (height, width), strict=True)
    )
    clip = np.zeros((frames, side, side, channels), np.uint8)
    for frame, row, column in zip(clip, rows, columns, strict=True):
        frame[row : row + height, column : column + width] = image
    return clip


def clips(
    problem: "MovingMnistClass | MovingMnistNext", split: str, context: GenerationContext
) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yields the digit, its direction in the first frame, and a clip with one frame more than the inputs have."""
    for sample in images_of(problem).generate_samples(split, context):
        digit = resized(sample[INPUTS], DIGIT_SIDE, DIGIT_SIDE)
        frames = context.rng.randint(problem.fewest_frames, problem.most_frames) + 1
        starts = (context.rng.uniform(0, SIDE - DIGIT_SIDE), context.rng.uniform(0, SIDE - DIGIT_SIDE))
        velocities = (_velocity(context.rng), _velocity(context.rng))
        yield sample[TARGETS], direction_of(velocities), moving(digit, SIDE, starts, velocities, frames)


def direction_of(velocities: Pair) -> str:
    """Returns the direction, one of `DIRECTIONS`, of velocities along rows and columns."""
    down, across = velocities
    return f"{'down' if down > 0 else 'up'} {'right' if across > 0 else 'left'}"


def _velocity(rng: Random) -> float:
    return rng.choice((-1, 1)) * rng.uniform(SLOWEST, FASTEST)


class MovingMnistClass(Video2Class):
    """Clip to the digit and the direction in which it starts, 40 classes."""

    images: ClassVar[type[Image2Class]] = ImageMnist
    """The problem whose images move."""
    splits: tuple[str, ...] = (TRAIN, DEV, TEST)
    image_shape = (SIDE, SIDE, 1)
    class_labels = tuple(f"{digit} {direction}" for digit in range(10) for direction in DIRECTIONS)
    fewest_frames: ClassVar[int] = 6
    most_frames: ClassVar[int] = 10
    """Range of the number of input frames; all numbers in it are equally likely."""

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields a clip of each image of a split, with its class."""
        for digit, direction, clip in clips(self, split, context):
            yield {INPUTS: clip[:-1], TARGETS: f"{digit} {direction}"}

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the files of the images."""
        return images_of(self).raw_files(tmp_dir)

    def requirements(self) -> str:
        """Returns what the images need."""
        return images_of(self).requirements()


class MovingMnistNext(ClassToImage):
    """Clip to its next frame, 784 intensities."""

    images: ClassVar[type[Image2Class]] = ImageMnist
    text_features = (TARGETS,)
    image_shape = (SIDE, SIDE, 1)
    image_fit = "squash"
    fewest_frames: ClassVar[int] = 4
    most_frames: ClassVar[int] = 4

    @functools.cached_property
    def features(self) -> Mapping[str, Feature]:
        """A clip and the intensities of a frame."""
        return {INPUTS: Video(self.image_shape, self.image_fit), **super().features}

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields a clip of each image of a split, and the frame after it."""
        for _, _, clip in clips(self, split, context):
            yield {INPUTS: clip[:-1], TARGETS: intensities_text(clip[-1])}


_T10K = {"images": ImageMnistT10k, "splits": ImageMnistT10k.splits}
_PROBLEMS: tuple[tuple[str, str, type[Problem], dict[str, Any]], ...] = (
    ("image_mnist_gen", "Generates handwritten digits (MNIST): 784 intensities from a digit.",
     ClassToImage, {"images": ImageMnist}),
    ("image_mnist_plain_gen", "Generates handwritten digits (MNIST) without inputs: 784 intensities.",
     ClassToImage, {"images": ImageMnist, "text_features": (TARGETS,)}),
    ("image_mnist_t10k_gen",
     "Generates handwritten digits, with only MNIST's 10,000 test images: 784 intensities from a digit.",
     ClassToImage, _T10K),
    ("image_cifar10_gen", "Generates small photographs (CIFAR-10): 3,072 intensities from a class.",
     ClassToImage, {"images": ImageCifar10}),
    ("image_cifar10_plain_gen", "Generates small photographs (CIFAR-10) without inputs: 3,072 intensities.",
     ClassToImage, {"images": ImageCifar10, "text_features": (TARGETS,)}),
    ("video_moving_mnist_class",
     "Which digit moves in a clip, and in which direction it starts (Moving MNIST, 60,000 clips).",
     MovingMnistClass, {}),
    ("video_moving_mnist_t10k_class",
     "Which digit moves in a clip, and in which direction it starts (Moving MNIST, only MNIST's 10,000 test images).",
     MovingMnistClass, _T10K),
    ("video_moving_mnist_next",
     "The next frame of a clip of a moving digit (Moving MNIST, 60,000 clips): 784 intensities from 4 frames.",
     MovingMnistNext, {}),
    ("video_moving_mnist_t10k_next",
     "The next frame of a clip of a moving digit (only MNIST's 10,000 test images): 784 intensities from 4 frames.",
     MovingMnistNext, _T10K),
)  # fmt: skip
"""Name, summary, base class and attributes of each."""

for _name, _summary, _base, _attributes in _PROBLEMS:
    register_problem(_name)(subclass(_base, _name, _summary, __name__, **_attributes))
