"""Inputs without a vocabulary (images, video clips and waveforms), to be combined with any kind of targets.

class MyPictures(ImageInputs, ClassTargets): ...    a picture to one of a few classes
class MySpeech(AudioInputs, TextProblem): ...       a waveform to text, with `text_features = (TARGETS,)`
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from t2t.problems.base import Problem, Sample
from t2t.problems.formats.audio import read_audio, resampled
from t2t.problems.formats.images import read_image, resized
from t2t.problems.labels import ClassTargets
from t2t.problems.samples import shown
from t2t.problems.text_problems import TextProblem
from t2t.specs.constants import DEV, INPUTS, TARGETS, TEST, TRAIN
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec


class ArrayInputs(Problem):
    """The input side of a problem; list it before the base class that defines the targets."""

    def input_feature(self) -> FeatureSpec:
        """Returns the spec of the inputs."""
        raise NotImplementedError

    def input_fault(self, value: Any) -> str:
        """Returns what is wrong with a sample's inputs, or an empty string."""
        raise NotImplementedError

    def input_array(self, value: Any) -> np.ndarray:
        """Returns a sample's inputs as the array to store."""
        raise NotImplementedError

    def sample_fault(self, sample: Any) -> str:
        """The inputs must be as declared; the other base class checks the targets."""
        if not isinstance(sample, Mapping):
            return f"is of type {type(sample).__name__}; it must be a dict"
        if INPUTS not in sample:
            return f"has no {INPUTS!r}"
        return self.input_fault(sample[INPUTS]) or super().sample_fault(sample)

    def declared_spec(self) -> ProblemSpec | None:
        """The inputs and what the other base class declares."""
        declared = super().declared_spec()
        return None if declared is None else self._with_inputs(declared)

    def spec(self) -> ProblemSpec:
        """The inputs and what the other base class has."""
        return self._with_inputs(super().spec())  # type: ignore[safe-super]  # of the other base class

    def _with_inputs(self, spec: ProblemSpec) -> ProblemSpec:
        features = {INPUTS: self.input_feature(), **spec.features}
        return dataclasses.replace(spec, features=features, shared_vocabulary=False)

    def encode_samples(self, samples: list[Sample]) -> list[dict[str, np.ndarray]]:
        """Encodes the targets and adds the inputs."""
        encoded = super().encode_samples(samples)  # type: ignore[safe-super]  # of the other base class
        return [
            {INPUTS: self.input_array(sample[INPUTS]), **example}
            for sample, example in zip(samples, encoded, strict=True)
        ]


class ImageInputs(ArrayInputs):
    """Images: a sample has (height, width, channels) uint8 as `inputs`, of any size; they are stored in one size."""

    image_shape: tuple[int, int, int] = (0, 0, 0)
    """(height, width, channels) of stored images; others are resized, see `resized`."""
    image_fit: str = "squash"
    """How images of another aspect ratio are resized, see `resized`."""

    def input_feature(self) -> FeatureSpec:
        """An image."""
        return FeatureSpec(kind=FeatureKind.IMAGE, shape=self.image_shape)

    def input_fault(self, value: Any) -> str:
        """An image is a uint8 array with channels last."""
        if not _is_bytes(value, axes=3):
            return f"has {_found(value)} for {INPUTS!r}; an image is a numpy array (height, width, channels) of uint8"
        if value.shape[2] != self.image_shape[2]:
            return f"has an image of {value.shape[2]} channels for {INPUTS!r}; it must have {self.image_shape[2]}"
        return ""

    def input_array(self, value: Any) -> np.ndarray:
        """Returns an image resized to `image_shape`."""
        return resized(value, *self.image_shape[:2], fit=self.image_fit)

    def read_input(self, path: Path) -> np.ndarray:
        """Returns the image in a file as a model reads it; see `read_image`."""
        return self.input_array(read_image(path, self.image_shape[2]))


class VideoInputs(ImageInputs):
    """Clips: a sample has (frames, height, width, channels) uint8 as `inputs`; frames are stored in one size."""

    chunk_size = 100

    def input_feature(self) -> FeatureSpec:
        """A clip."""
        return FeatureSpec(kind=FeatureKind.VIDEO, shape=self.image_shape)

    def input_fault(self, value: Any) -> str:
        """A clip is a uint8 array, frames first and channels last."""
        if not _is_bytes(value, axes=4):
            axes = "(frames, height, width, channels)"
            return f"has {_found(value)} for {INPUTS!r}; a clip is a numpy array {axes} of uint8"
        return super().input_fault(value[0])

    def input_array(self, value: Any) -> np.ndarray:
        """Returns a clip with frames resized to `image_shape`."""
        return np.stack([resized(frame, *self.image_shape[:2], fit=self.image_fit) for frame in value])

    def read_input(self, path: Path) -> np.ndarray:
        """Refuses: there is no file format of clips."""
        return Problem.read_input(self, path)


class AudioInputs(ArrayInputs):
    """Waveforms: a sample has the path of an audio file, or a (samples,) float array, as `inputs`."""

    sample_rate: int = 16_000
    """Samples per second of stored audio; files of another rate are resampled."""
    max_audio_seconds: float = 0.0
    """Training examples that last longer are dropped; 0 for no limit."""
    chunk_size = 32

    def input_feature(self) -> FeatureSpec:
        """A waveform."""
        return FeatureSpec(kind=FeatureKind.AUDIO, sample_rate=self.sample_rate)

    def input_fault(self, value: Any) -> str:
        """A waveform is a path or a float array."""
        if isinstance(value, Path):
            return ""
        if isinstance(value, np.ndarray) and value.ndim == 1 and np.issubdtype(value.dtype, np.floating):
            return ""
        return (
            f"has {shown(value)} for {INPUTS!r}; a waveform is the pathlib.Path of an audio file, or a numpy array "
            f"(samples,) of float in [-1, 1] at {self.sample_rate} Hz"
        )

    def input_array(self, value: Any) -> np.ndarray:
        """Returns (samples,) float32 in [-1, 1] at `sample_rate`; channels of a file are averaged."""
        if isinstance(value, Path):
            waveform, rate = read_audio(value)
            return resampled(waveform, rate, self.sample_rate)
        with np.errstate(over="ignore"):  # generation refuses the infinite values that result
            samples: np.ndarray = value.astype(np.float32)
            return samples

    def read_input(self, path: Path) -> np.ndarray:
        """Returns the recording in a file as a model reads it; see `input_array`."""
        return self.input_array(path)


class Image2Class(ImageInputs, ClassTargets):
    """Image to one of a few classes: samples are `{"inputs": (height, width, channels) uint8, "targets": name}`."""


class MadeOfImages(Problem):
    """A problem whose samples are made from those of an image classification problem, `images`."""

    images: ClassVar[type[Image2Class]]
    splits: tuple[str, ...] = (TRAIN, DEV, TEST)

    def made_of(self) -> Image2Class:
        """Returns the problem of the images, under the name of this one for messages."""
        images = self.images()
        images.name = self.name
        return images

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the files of the images."""
        return self.made_of().raw_files(tmp_dir)

    def requirements(self) -> str:
        """Returns what the images need."""
        return self.made_of().requirements()


class Image2Text(ImageInputs, TextProblem):
    """Image to text: samples are `{"inputs": (height, width, channels) uint8, "targets": str}`."""

    text_features = (TARGETS,)
    metrics = ("bleu", "accuracy")


class Speech2Text(AudioInputs, TextProblem):
    """Speech to text: samples are `{"inputs": path of an audio file, "targets": str}`; a byte vocabulary by default."""

    text_features = (TARGETS,)
    vocab_kind = "byte"
    max_length = 512
    max_audio_seconds = 20.0
    metrics = ("wer", "accuracy")


class Video2Class(VideoInputs, ClassTargets):
    """Clip to one of a few classes: samples have (frames, height, width, channels) uint8 and the name of a class."""


class Audio2Class(AudioInputs, ClassTargets):
    """Sound to one of a few classes: samples are `{"inputs": path of an audio file, "targets": name}`."""

    max_audio_seconds = 20.0


def _is_bytes(value: Any, axes: int) -> bool:
    """Returns whether a value is a uint8 array with so many axes, none of them empty."""
    return isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == axes and value.size > 0


def _found(value: Any) -> str:
    """Describes a value that is not an image or clip, for a message."""
    return f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else shown(value)
