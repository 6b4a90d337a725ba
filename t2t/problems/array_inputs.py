"""Inputs without a vocabulary (images, video clips and waveforms), with text or one of a few classes as targets.

Their attributes are the settings of the features. A problem that declares `features` needs none of these classes.
`ImageInputs`, `VideoInputs` and `AudioInputs` go before another base class, which defines the targets:
`class MySpeech(AudioInputs, TextProblem)`, with `text_features = (TARGETS,)`.
"""

import functools
from collections.abc import Mapping

from t2t.features.audio import Audio
from t2t.features.feature import Feature
from t2t.features.image import Image, Video
from t2t.features.label import Label
from t2t.problems.base import Problem
from t2t.problems.text_problems import Text2Text
from t2t.specs import INPUTS, TARGETS


class Image2Class(Problem):
    """Image to one of a few classes: samples are `{"inputs": (height, width, channels) uint8, "targets": name}`."""

    image_shape: tuple[int, int, int] = (0, 0, 0)
    """(height, width, channels) of stored images; others are resized, see `resized`."""
    image_fit: str = "squash"
    """How images of another aspect ratio are resized, see `resized`."""
    class_labels: tuple[str, ...] = ()
    """Names of the classes; a target's id is its index here. Empty for those that occur in the training samples."""
    metrics: tuple[str, ...] = ("accuracy",)

    @functools.cached_property
    def features(self) -> Mapping[str, Feature]:
        """An image and a label."""
        return {INPUTS: Image(self.image_shape, self.image_fit), TARGETS: Label(self.class_labels)}


class Video2Class(Image2Class):
    """Clip to one of a few classes: samples have (frames, height, width, channels) uint8 and the name of a class."""

    @functools.cached_property
    def features(self) -> Mapping[str, Feature]:
        """A clip and a label."""
        return {**super().features, INPUTS: Video(self.image_shape, self.image_fit)}


class Audio2Class(Problem):
    """Sound to one of a few classes: samples are `{"inputs": path of an audio file, "targets": name}`."""

    sample_rate: int = 16_000
    """Samples per second of stored audio; files of another rate are resampled."""
    max_audio_seconds: float = 20.0
    """Training examples that last longer are dropped; 0 for no limit."""
    class_labels: tuple[str, ...] = ()
    """See `Image2Class`."""
    metrics: tuple[str, ...] = ("accuracy",)

    @functools.cached_property
    def features(self) -> Mapping[str, Feature]:
        """A waveform and a label."""
        return {INPUTS: Audio(self.sample_rate, self.max_audio_seconds), TARGETS: Label(self.class_labels)}


class Image2Text(Text2Text):
    """Image to text: samples are `{"inputs": (height, width, channels) uint8, "targets": str}`."""

    image_shape: tuple[int, int, int] = (0, 0, 0)
    """See `Image2Class`, also for `image_fit`."""
    image_fit: str = "squash"
    text_features = (TARGETS,)
    metrics = ("bleu", "accuracy")

    @functools.cached_property
    def features(self) -> Mapping[str, Feature]:
        """An image and a text."""
        return {INPUTS: Image(self.image_shape, self.image_fit), **super().features}


class Speech2Text(Text2Text):
    """Speech to text: samples are `{"inputs": path of an audio file, "targets": str}`; a byte vocabulary by default."""

    sample_rate: int = 16_000
    """See `Audio2Class`, also for `max_audio_seconds`."""
    max_audio_seconds: float = 20.0
    text_features = (TARGETS,)
    vocab_kind = "byte"
    max_length = 512
    metrics = ("wer", "accuracy")

    @functools.cached_property
    def features(self) -> Mapping[str, Feature]:
        """A waveform and a text."""
        return {INPUTS: Audio(self.sample_rate, self.max_audio_seconds), **super().features}


class ImageInputs(Problem):
    """An image as the input side; see `Image2Class` for the attributes."""

    image_shape: tuple[int, int, int] = (0, 0, 0)
    image_fit: str = "squash"

    @functools.cached_property
    def features(self) -> Mapping[str, Feature]:
        """An image, and the other features."""
        return {INPUTS: Image(self.image_shape, self.image_fit), **super().features}


class VideoInputs(ImageInputs):
    """A clip as the input side; see `Image2Class` for the attributes."""

    @functools.cached_property
    def features(self) -> Mapping[str, Feature]:
        """A clip, and the other features."""
        return {**super().features, INPUTS: Video(self.image_shape, self.image_fit)}


class AudioInputs(Problem):
    """A waveform as the input side; see `Audio2Class` for the attributes."""

    sample_rate: int = 16_000
    max_audio_seconds: float = 0.0

    @functools.cached_property
    def features(self) -> Mapping[str, Feature]:
        """A waveform, and the other features."""
        return {INPUTS: Audio(self.sample_rate, self.max_audio_seconds), **super().features}
