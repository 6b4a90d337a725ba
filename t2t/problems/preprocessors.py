"""What training changes by chance in the examples it reads: one small class each, listed by `Problem.preprocessors`.

Each draws from the generator it is given and from nothing else: t2t/data/preprocessors.py makes one for every example.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from t2t.specs.constants import INPUTS
from t2t.text.sampling import SubwordSampler

Example = dict[str, np.ndarray]
"""Feature name to an array as `Problem.encode_samples` gives it."""


@dataclass(frozen=True, kw_only=True)
class Preprocessor(ABC):
    """A random change of training examples; subclasses are frozen dataclasses, whose repr is logged."""

    features: tuple[str, ...] = (INPUTS,)
    """Names of the features that it reads or changes, those of the stored data: `_rev` renames them afterwards."""
    changes_lengths: ClassVar[bool] = False
    """Whether sequences may get another length. It then runs before batches are cut, ahead of all that do not."""

    @abstractmethod
    def __call__(self, example: Example, rng: np.random.Generator) -> Example:
        """Returns the example, which has `features` alone, changed; its arrays are the caller's and stay as they are.

        `rng` is seeded by the run's seed, the epoch, the example and the place in the list.
        """


@dataclass(frozen=True, kw_only=True)
class RandomCrop(Preprocessor):
    """Moves images by up to `padding` pixels each way; zeros come in at the edges (He et al. 2016, section 4.2)."""

    padding: int = 4
    """Pixels added on each side before a part of the image's own size is cut out."""

    def __call__(self, example: Example, rng: np.random.Generator) -> Example:
        """Crops (height, width, channels) images."""
        return {name: self._cropped(image, rng) for name, image in example.items()}

    def _cropped(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        top, left = rng.integers(2 * self.padding + 1, size=2)
        (height, width, channels), edge = image.shape, self.padding
        padded = np.zeros((height + 2 * edge, width + 2 * edge, channels), image.dtype)
        padded[edge : edge + height, edge : edge + width] = image
        return padded[top : top + height, left : left + width]


@dataclass(frozen=True, kw_only=True)
class RandomResizedCrop(Preprocessor):
    """Cuts a part of random size, proportions and place out of images and resizes it to their size.

    Szegedy et al. 2015 (arXiv:1409.4842), section 6; where ten draws give no part that fits, images stay whole.
    """

    least_area: float = 0.08
    """Of an image, a fraction; the area is drawn uniformly from here to 1."""
    longest_side: float = 4 / 3
    """Most that width and height differ by, a factor; its logarithm is drawn uniformly."""

    def __call__(self, example: Example, rng: np.random.Generator) -> Example:
        """Crops and resizes (height, width, channels) images."""
        return {name: self._cropped(image, rng) for name, image in example.items()}

    def _cropped(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        from t2t.problems.formats.images import resized  # Pillow, which problems without images do not need

        rows, columns = image.shape[:2]
        for _ in range(10):
            area = rows * columns * rng.uniform(self.least_area, 1.0)
            proportions = self.longest_side ** rng.uniform(-1.0, 1.0)
            height, width = round((area / proportions) ** 0.5), round((area * proportions) ** 0.5)
            if 0 < height <= rows and 0 < width <= columns:
                top, left = rng.integers(rows - height + 1), rng.integers(columns - width + 1)
                return resized(image[top : top + height, left : left + width], rows, columns)
        return image


@dataclass(frozen=True, kw_only=True)
class RandomFlip(Preprocessor):
    """Swaps left and right of half of the images, drawn each time."""

    def __call__(self, example: Example, rng: np.random.Generator) -> Example:
        """Flips (height, width, channels) images."""
        return {name: image[:, ::-1] if rng.random() < 0.5 else image for name, image in example.items()}


@dataclass(frozen=True, kw_only=True)
class SubwordSampling(Preprocessor):
    """Writes text in other pieces of the same vocabulary, see `SubwordSampler`."""

    samplers: Mapping[str, SubwordSampler] = field(repr=False)
    """By feature."""
    alpha: float
    changes_lengths = True

    def __call__(self, example: Example, rng: np.random.Generator) -> Example:
        """Samples the pieces of (length,) ids."""
        return {name: self.samplers[name](ids, self.alpha, rng) for name, ids in example.items()}
