"""Random changes to training examples (data augmentation), one small class each, listed by `Problem.preprocessors`.

Each draws only from the generator that it is passed: t2t/data/reading/preprocessors.py makes one for every example.
Masked language modelling hides tokens by the recipe of Devlin et al. (2018, arXiv:1810.04805), section 3.1, task 1.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from t2t.errors import UserError
from t2t.registry import register_preprocessor
from t2t.registry.overrides import check_overrides
from t2t.specs import EOS_ID, INPUTS, PAD_ID, UNK_ID
from t2t.text.byte import ByteEncoder
from t2t.text.encoder import TextEncoder
from t2t.text.sampling import SubwordSampler
from t2t.text.sentencepiece import SentencePieceEncoder

Example = dict[str, np.ndarray]
"""Feature name to an array as `Problem.encode_samples` returns it."""


@dataclass(frozen=True, kw_only=True)
class Preprocessor(ABC):
    """A random change of training examples; subclasses are frozen dataclasses, whose repr is logged."""

    features: tuple[str, ...] = (INPUTS,)
    """Features that it reads or changes, by their names in the stored data: `_rev` renames them afterwards."""
    changes_lengths: ClassVar[bool] = False
    """Whether it may change the length of sequences. If so, it runs before batches are cut, and before all others."""

    def __init_subclass__(cls) -> None:
        check_overrides(cls)

    @abstractmethod
    def __call__(self, example: Example, rng: np.random.Generator) -> Example:
        """Returns a changed example, without modifying the arrays of `example`, which has `features` only.

        `rng` is seeded by the run's seed, the epoch, the example and the preprocessor's position in the list.
        """

    @classmethod
    def of_texts(cls, encoders: Mapping[str, TextEncoder], rate: float) -> Self:
        """Returns the one that the option `preprocessors` asks for by its name and a number.

        Args:
            encoders: by name, the vocabularies of the text features.
            rate: the number.

        Raises:
            UserError: it is for other features than text, or for other vocabularies.
        """
        raise UserError(
            f"{cls.__name__} changes no texts", "name it in Problem.preprocessors instead", option="preprocessors"
        )


@dataclass(frozen=True, kw_only=True)
class TextPreprocessor(Preprocessor):
    """A random change of texts; subclasses override `change`.

    It changes those of its `features` that are text, the inputs if a class does not say otherwise; of problems without
    these, every text.
    """

    encoders: Mapping[str, TextEncoder] = field(repr=False)
    """Vocabularies, by feature."""
    rate: float
    """How much is changed, e.g. the probability for each word."""
    changes_lengths = True

    def __call__(self, example: Example, rng: np.random.Generator) -> Example:
        """Changes the text of (length,) ids."""
        texts = {name: self.change(self.encoders[name].decode(ids), rng) for name, ids in example.items()}
        return {name: self.encoders[name].encode_ended([text])[0] for name, text in texts.items()}

    @abstractmethod
    def change(self, text: str, rng: np.random.Generator) -> str:
        """Returns a changed text."""

    @classmethod
    def of_texts(cls, encoders: Mapping[str, TextEncoder], rate: float) -> Self:
        """Returns one for the features of the class."""
        names = tuple(name for name in cls.features if name in encoders) or tuple(encoders)
        return cls(features=names, encoders={name: encoders[name] for name in names}, rate=rate)


class ImagePreprocessor(Preprocessor):
    """A random change of images; subclasses override `change`."""

    def __call__(self, example: Example, rng: np.random.Generator) -> Example:
        """Changes each image."""
        return {name: self.change(image, rng) for name, image in example.items()}

    @abstractmethod
    def change(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Returns a changed image, (height, width, channels)."""


@register_preprocessor
@dataclass(frozen=True, kw_only=True)
class RandomCrop(ImagePreprocessor):
    """Shifts images by up to `padding` pixels each way, with zeros at the edges (He et al. 2016, section 4.2)."""

    padding: int = 4
    """Pixels added on each side before a part of the original size is cut out."""

    def change(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Crops the image."""
        top, left = rng.integers(2 * self.padding + 1, size=2)
        (height, width, channels), edge = image.shape, self.padding
        padded = np.zeros((height + 2 * edge, width + 2 * edge, channels), image.dtype)
        padded[edge : edge + height, edge : edge + width] = image
        return padded[top : top + height, left : left + width]


@register_preprocessor
@dataclass(frozen=True, kw_only=True)
class RandomResizedCrop(ImagePreprocessor):
    """Crops a part of random area, aspect ratio and position out of images and resizes it to their size.

    Szegedy et al. 2015 (arXiv:1409.4842), section 6; if none of ten draws fits, the image is kept whole.
    """

    least_area: float = 0.08
    """Smallest area, a fraction of the image's; the area is drawn uniformly from here to 1."""
    longest_side: float = 4 / 3
    """Largest ratio of the longer to the shorter side; the logarithm of the aspect ratio is drawn uniformly."""

    def change(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Crops and resizes the image."""
        from t2t.features.image import resized  # Pillow, which problems without images do not need

        rows, columns = image.shape[:2]
        for _ in range(10):
            area = rows * columns * rng.uniform(self.least_area, 1.0)
            proportions = self.longest_side ** rng.uniform(-1.0, 1.0)
            height, width = round((area / proportions) ** 0.5), round((area * proportions) ** 0.5)
            if 0 < height <= rows and 0 < width <= columns:
                top, left = rng.integers(rows - height + 1), rng.integers(columns - width + 1)
                return resized(image[top : top + height, left : left + width], rows, columns)
        return image


@register_preprocessor
@dataclass(frozen=True, kw_only=True)
class RandomFlip(ImagePreprocessor):
    """Flips each image left to right with probability 0.5."""

    def change(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Flips the image."""
        return image[:, ::-1] if rng.random() < 0.5 else image


@register_preprocessor
@dataclass(frozen=True, kw_only=True)
class SubwordSampling(Preprocessor):
    """Segments text into other pieces of the same vocabulary, see `SubwordSampler`."""

    samplers: Mapping[str, SubwordSampler] = field(repr=False)
    """By feature."""
    alpha: float
    changes_lengths = True

    def __call__(self, example: Example, rng: np.random.Generator) -> Example:
        """Samples the pieces of (length,) ids."""
        return {name: self.samplers[name](ids, self.alpha, rng) for name, ids in example.items()}

    @classmethod
    def of_texts(cls, encoders: Mapping[str, TextEncoder], rate: float) -> Self:
        """Returns one for the texts whose vocabularies have pieces; raises UserError if there are none."""
        pieces = {name: encoder for name, encoder in encoders.items() if encoder.kind == SentencePieceEncoder.kind}
        samplers = {name: SubwordSampler(encoder) for name, encoder in (pieces or encoders).items()}
        return cls(features=tuple(samplers), samplers=samplers, alpha=rate)


@dataclass(frozen=True, kw_only=True)
class TokenMasking:
    """Hides some tokens of a text."""

    vocab_size: int
    mask_id: int
    """Id that stands for a hidden token."""
    rate: float = 0.15
    """Share of the tokens that are to be predicted."""
    hidden: float = 0.8
    """Share of these that become `mask_id`."""
    exchanged: float = 0.1
    """Share of these that are replaced by a random token; the others are kept."""

    def __call__(self, ids: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Hides random tokens.

        Args:
            ids: (length,) integers, perhaps with padding at the end. At least one token is chosen, never the end of
                sequence.
            rng: of the choice.

        Returns:
            Two arrays like `ids`: what a model reads, and what it predicts: the original tokens at the chosen
            positions, else PAD_ID.
        """
        positions = np.flatnonzero((ids != PAD_ID) & (ids != EOS_ID))
        count = min(len(positions), max(1, round(self.rate * len(positions))))
        chosen = rng.choice(positions, size=count, replace=False)
        draws, others = rng.random(count), rng.integers(EOS_ID + 1, self.vocab_size, size=count)
        inputs, targets = ids.copy(), np.full_like(ids, PAD_ID)
        targets[chosen] = ids[chosen]
        is_hidden, is_kept = draws < self.hidden, draws >= self.hidden + self.exchanged
        inputs[chosen] = np.where(is_hidden, self.mask_id, np.where(is_kept, ids[chosen], others))
        return inputs, targets


def mask_id_of(encoder: TextEncoder, problem: str) -> int:
    """Returns an id that texts do not use: that of unknown words, or byte 0.

    Raises:
        UserError: the vocabulary has none; the message names the `problem`.
    """
    if encoder.unknown_id is not None:
        return encoder.unknown_id
    if encoder.kind in (SentencePieceEncoder.kind, ByteEncoder.kind):
        return UNK_ID
    raise UserError(
        f"problem {problem}: its vocabulary of kind {encoder.kind} has no id that texts do not use, which could stand "
        "for a hidden word",
        f"choose --vocab_kind={SentencePieceEncoder.kind}, byte or token",
    )
