"""Speech generation from your own recordings and their classes or texts; no code needed.

One instance of `speech_generate_files`, of a file with a path, a TAB and a class or a text on each line:
    inputs   seven
    targets  128 128 127 131 140 ..., the samples of recordings/0412.wav as mu-law codes, 0 to 255

Paths are relative to the folder of the file that names them; files are read as in `speech_files`. With
`--sample_rate=8000` sequences are half as long as with the default, 16,000. With `--vocab_kind=token` a class is one
word. Source and licence are those of the user's files.
Samples as the words of a sequence: van den Oord et al. 2016, "WaveNet" (arXiv:1609.03499), section 2.2.
"""

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from t2t.features.audio import AudioCodes
from t2t.features.feature import Feature
from t2t.hparams.field import param
from t2t.problems.base import Sample, Source
from t2t.problems.line_shards import RECORDINGS_PER_SHARD
from t2t.problems.speech_files import recordings
from t2t.problems.split_files import FilesAndTextOptions, NamedFiles
from t2t.problems.text_problems import Text2Text
from t2t.registry import register_problem
from t2t.specs.constants import INPUTS, TARGETS

MAX_SECONDS = 20.0
"""Longer training examples are dropped."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpeechGenerationOptions(FilesAndTextOptions):
    """The files of each split, the vocabulary of their text, and the sample rate of the sound."""

    sample_rate: int = param(
        0, "Samples per second of the sound that is generated; 0 for the problem's own, 16,000.", minimum=0
    )


@register_problem
class SpeechGenerateFiles(NamedFiles, Text2Text):
    """Generates your own recordings from classes or texts; --train_file and --dev_file have lines of path TAB text."""

    _shard_lines = RECORDINGS_PER_SHARD
    line_form = "the path of a recording, a TAB and its class or text"
    options_class: ClassVar[type[SpeechGenerationOptions]] = SpeechGenerationOptions
    vocab_kind = "byte"
    shared_vocabulary = False
    metrics = ("neg_log_perplexity", "accuracy")
    sample_rate: int = 16_000
    """Samples per second of stored and generated sound; files of another rate are resampled."""

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.sample_rate = self.options.sample_rate or self.sample_rate
        self.max_length = round(MAX_SECONDS * self.sample_rate) + 1

    def generate_samples(self, split: str, source: Source) -> Iterator[Sample]:
        """Yields the recordings of a split, in the order of the files; see `recordings`."""
        for _, path, text in recordings(self, split, source):
            yield {INPUTS: text, TARGETS: path}

    @functools.cached_property
    def features(self) -> Mapping[str, Feature]:
        """A text and a sound."""
        return {**super().features, TARGETS: AudioCodes(sample_rate=self.sample_rate)}
