"""Tensor2Tensor's problems of images and of speech, for plug-ins that subclass them, and its reader of sound files."""

import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from t2t.compat.tensor2tensor import generator_utils, problem, text_encoder
from t2t.features.audio import read_audio, resampled
from t2t.features.image import png_file


class ImageProblem(problem.Problem):
    """Problems whose inputs are images; `generator` yields what `image_generator` does."""

    @property
    def num_channels(self) -> int:
        """Numbers of a pixel."""
        return 3

    @property
    def vocab_size(self) -> int:
        """Intensities of a channel."""
        return 256

    train_shards, dev_shards = 10, 1

    def generator(self, data_dir: str, tmp_dir: str, is_training: bool) -> Iterable[dict[str, Any]]:
        """Yields the images of a split; plug-ins write it."""
        raise NotImplementedError(f"{type(self).__name__} has no generator")

    def generate_data(self, data_dir: Any, tmp_dir: Any, task_id: int = -1) -> None:
        """Generates the data, as `t2t-datagen` does."""
        if not generator_utils.is_taken():
            super().generate_data(data_dir, tmp_dir, task_id)
            return
        generator_utils.generate_dataset_and_shuffle(
            self.generator(data_dir, tmp_dir, True), self.training_filepaths(data_dir, self.train_shards, False),
            self.generator(data_dir, tmp_dir, False), self.dev_filepaths(data_dir, self.dev_shards, False),
        )  # fmt: skip


class Image2ClassProblem(ImageProblem):
    """Image to class: `generator` yields what `image_generator` does."""

    @property
    def is_small(self) -> bool:
        """Whether images are as small as those of CIFAR-10; here they are stored 32 pixels wide, else 224."""
        raise NotImplementedError(f"{type(self).__name__} has no is_small")

    @property
    def num_classes(self) -> int:
        """The number of classes; plug-ins say it."""
        raise NotImplementedError(f"{type(self).__name__} has no num_classes")

    @property
    def class_labels(self) -> Any:
        """The names of the classes by their numbers."""
        return [f"ID_{number}" for number in range(self.num_classes)]

    def feature_encoders(self, data_dir: str | None) -> dict[str, text_encoder.TextEncoder]:
        """Returns the classes."""
        labels = self.class_labels
        return {"targets": text_encoder.ClassLabelEncoder(labels(data_dir) if callable(labels) else labels)}


class Image2TextProblem(ImageProblem):
    """Image to text: `generator` yields the ids of the text as `image/class/label`."""

    @property
    def is_character_level(self) -> bool:
        """Whether texts are cut into bytes; else plug-ins say `vocab_problem`."""
        return False

    @property
    def vocab_problem(self) -> Any:
        """The problem whose vocabulary is used."""
        raise NotImplementedError(f"{type(self).__name__} has no vocab_problem")

    def feature_encoders(self, data_dir: str | None) -> dict[str, text_encoder.TextEncoder]:
        """Returns the vocabulary of the text; in the first versions, the size said which."""
        if self.is_character_level:
            return {"targets": text_encoder.ByteTextEncoder()}
        size = getattr(self, "targeted_vocab_size", None)
        name = f"vocab.endefr.{size}" if size else self.vocab_problem.vocab_filename
        return {"targets": text_encoder.SubwordTextEncoder(os.path.join(data_dir or "", name))}


def encode_images_as_png(images: Iterable[Any]) -> Iterator[bytes]:
    """Yields a PNG file of each image, (height, width, channels)."""
    for image in images:
        yield png_file(np.asarray(image, np.uint8))


def image_generator(images: Iterable[Any], labels: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Yields images and the numbers of their classes as samples."""
    for image, label in zip(images, labels, strict=False):
        height, width = np.shape(image)[:2]
        yield {
            "image/encoded": list(encode_images_as_png([image])), "image/format": ["png"],
            "image/class/label": [int(label)], "image/height": [height], "image/width": [width],
        }  # fmt: skip


class AudioEncoder:
    """Reads sound files."""

    num_reserved_ids = 0

    def __init__(self, num_reserved_ids: int = 0, sample_rate: int = 16_000):
        self._sample_rate = sample_rate

    def encode(self, s: str) -> list[float]:
        """Returns the samples of a sound file, in [-1, 1]."""
        waveform, rate = read_audio(s)
        samples: list[float] = resampled(waveform, rate, self._sample_rate).tolist()
        return samples


class SpeechRecognitionProblem(problem.Problem):
    """Speech to text: the plug-in's `generate_data` writes samples with `waveforms` and `targets`."""

    num_test_shards = 0
    """Shards of the test split; 0 for none."""

    def feature_encoders(self, data_dir: str | None) -> dict[str, Any]:
        """Returns the reader of sound files, and the vocabulary of the texts."""
        return {"inputs": None, "waveforms": AudioEncoder(), "targets": text_encoder.ByteTextEncoder()}
