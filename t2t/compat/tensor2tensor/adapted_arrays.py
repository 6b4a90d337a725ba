"""Problems of images and of speech of plug-ins, as problems of this project; see `adapter`.

Their samples are those that Tensor2Tensor's `generate_data` would write to files.
"""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from t2t.compat.tensor2tensor.generator_utils import samples_written
from t2t.compat.tensor2tensor.image_and_speech import (
    Image2ClassProblem,
    Image2TextProblem,
    ImageProblem,
    SpeechRecognitionProblem,
)
from t2t.errors import UserError
from t2t.features.image import decode_image
from t2t.problems.array_inputs import Image2Class, Image2Text, Speech2Text
from t2t.problems.base import GenerationContext, Problem, Sample
from t2t.specs import INPUTS, SPLITS, TARGETS
from t2t.text.encoder import TextEncoder
from t2t.text.label import LabelEncoder

SMALL, CAPTIONED, LARGE = 32, 64, 224
"""Height and width of stored images, in pixels."""


class _FromFiles(Problem):
    """What both kinds do."""

    theirs: ClassVar[type[Any]]
    """The class that the plug-in has registered."""

    def __init__(self, **options: Any):
        self.their_problem = self.theirs()
        super().__init__(**options)

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the samples that the plug-in would write for a split."""
        self.check_split(split)
        folders = str(context.data_dir or context.tmp_dir), str(context.tmp_dir)
        for sample in samples_written(self.their_problem.generate_data, *folders, split):
            yield self.own_sample(sample)

    def own_sample(self, sample: Any) -> Sample:
        """Returns a sample with the features of this problem."""
        raise NotImplementedError

    def image_of(self, sample: Any) -> np.ndarray:
        """Returns the image of a sample."""
        content = io.BytesIO(sample["image/encoded"][0])
        return decode_image(content, self.image_shape[2], f"problem {self.name}: an image")  # type: ignore[attr-defined]

    def text_encoders(self, context: GenerationContext) -> dict[str, TextEncoder]:
        """Returns the vocabulary of the plug-in's texts."""
        encoder = self.their_problem.feature_encoders(str(context.data_dir or context.tmp_dir))["targets"]
        if getattr(encoder, "own", None) is None:
            raise UserError(
                f"problem {self.name}: the vocabulary of 'targets' is a {type(encoder).__name__}, which cannot be "
                "stored with the data",
                "use ByteTextEncoder, SubwordTextEncoder or TokenTextEncoder",
            )
        return {TARGETS: encoder.own}


class AdaptedImage2Class(_FromFiles, Image2Class):
    """Image to class."""

    def build_encoders(self, context: GenerationContext) -> dict[str, TextEncoder]:
        """Returns the classes that the plug-in names."""
        encoders = self.their_problem.feature_encoders(str(context.data_dir or context.tmp_dir))
        return {TARGETS: LabelEncoder(list(map(str, encoders["targets"].class_labels)))}

    def own_sample(self, sample: Any) -> Sample:
        """Returns an image and the name of its class."""
        number = int(sample["image/class/label"][0])
        encoder = self.encoders[TARGETS]
        if not 0 <= number < encoder.vocab_size:
            raise UserError(
                f"problem {self.name}: a sample has the label {number} of {encoder.vocab_size} classes",
                "correct its generator or num_classes",
            )
        return {INPUTS: self.image_of(sample), TARGETS: encoder.piece(number)}


class AdaptedImage2Text(_FromFiles, Image2Text):
    """Image to text."""

    build_encoders = _FromFiles.text_encoders

    def own_sample(self, sample: Any) -> Sample:
        """Returns an image, and the text of the ids."""
        return {
            INPUTS: self.image_of(sample),
            TARGETS: self.encoders[TARGETS].decode(list(sample["image/class/label"])),
        }


class AdaptedSpeech2Text(_FromFiles, Speech2Text):
    """Speech to text."""

    build_encoders = _FromFiles.text_encoders

    def own_sample(self, sample: Any) -> Sample:
        """Returns a waveform, or the path of its file, and the text of the ids."""
        sound, ids = sample["waveforms"], list(sample[TARGETS])
        waveform = Path(sound) if isinstance(sound, str) else np.asarray(sound, np.float32)
        return {INPUTS: waveform, TARGETS: self.encoders[TARGETS].decode(ids)}


def adapted_arrays(one: Any) -> tuple[type[Problem], dict[str, Any]] | None:
    """Returns the problem of this project for one of images or speech, and its attributes; None for other ones."""
    if isinstance(one, ImageProblem):
        kinds = {Image2ClassProblem: AdaptedImage2Class, Image2TextProblem: AdaptedImage2Text}
        found = [kind for theirs, kind in kinds.items() if isinstance(one, theirs)]
        large = LARGE if isinstance(one, Image2ClassProblem) else CAPTIONED
        size = getattr(one, "image_size", SMALL if getattr(one, "is_small", False) else large)
        named = {"train", "dev", *(each["split"] for each in one.dataset_splits)}
        values = {"image_shape": (size, size, one.num_channels), "splits": tuple(filter(named.__contains__, SPLITS))}
        return (found[0], values) if found else None
    if isinstance(one, SpeechRecognitionProblem):
        return AdaptedSpeech2Text, {"splits": ("train", "dev", "test")[: 3 if one.num_test_shards else 2]}
    return None
