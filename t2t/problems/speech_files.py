"""Recognition or classification of your own speech recordings, no code needed.

One instance of `speech_files`, of a file with a path, a TAB and a transcript on each line:
    inputs   recordings/0412.wav, about 32,000 samples of 16 kHz
    targets  turn the lights off

`speech_classify_files` has a class in place of the transcript. Paths are relative to the folder of the file that names
them; in an object store, --tmp_dir must name a folder that has them, since only the lists are downloaded otherwise.
WAV, FLAC, Ogg and MP3 files can be read, with the extra `audio`; channels are averaged, other rates resampled to 16
kHz. Changes to the recordings after generation are not detected, only changes to the lists of them. Source and licence
are those of the user's files.

Speech generation from your own recordings and their classes or texts; no code needed.

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
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from t2t.errors import UserError
from t2t.features.audio import AudioCodes
from t2t.features.feature import Feature
from t2t.files.paths import address_of
from t2t.hparams.field import param
from t2t.problems.array_inputs import Audio2Class, Speech2Text
from t2t.problems.base import GenerationContext, Sample
from t2t.problems.split_files import RECORDINGS_PER_SHARD, FilesAndTextOptions, FilesOptions, Line, NamedFiles
from t2t.problems.text_files import check_label
from t2t.problems.text_problems import Text2Text
from t2t.registry import register_problem
from t2t.specs import INPUTS, TARGETS


def recordings(problem: NamedFiles, split: str, context: GenerationContext) -> Iterator[tuple[Line, Path, str]]:
    """Yields the position of each line, the path of the recording that it names and the text or class after it.

    Raises:
        UserError: a recording does not exist, or see `columns_of`.
    """
    for line, name, said in problem.columns_of(split, context):
        recording = line.path.parent / name
        if not os.path.isfile(recording):  # it may be no path but a text, longer than `Path.is_file` takes
            raise _missing(problem, line, recording)
        yield line, recording, said


def _missing(problem: NamedFiles, line: Line, recording: Path) -> UserError:
    if not address_of(recording):
        return problem.line_error(line, f"names {recording}, which is not there")
    return UserError(
        f"{line.path}, line {line.number:,}, names {recording}, which is not on this machine; of an object store, the "
        "lists and all of --tmp_dir are downloaded",
        f"give --tmp_dir={line.path.parent}",
    )


@register_problem
class SpeechFiles(NamedFiles, Speech2Text):
    """Your own recordings to text, given by --train_file and --dev_file: lines of path TAB transcript."""

    _shard_lines = RECORDINGS_PER_SHARD
    line_form = "the path of a recording, a TAB and what is said in it"

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the recordings of a split, in the order of the files; see `recordings`."""
        for _, path, text in recordings(self, split, context):
            yield {INPUTS: path, TARGETS: text}


@register_problem
class SpeechClassifyFiles(NamedFiles, Audio2Class):
    """Your own recordings to your own classes, given by --train_file and --dev_file: lines of path TAB class."""

    _shard_lines = RECORDINGS_PER_SHARD
    line_form = "the path of a recording, a TAB and its class"
    options_class = FilesOptions

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the recordings of a split, in the order of the files; see `recordings` and `check_label`."""
        for line, path, label in recordings(self, split, context):
            check_label(self, line, label)
            yield {INPUTS: path, TARGETS: label}


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

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the recordings of a split, in the order of the files; see `recordings`."""
        for _, path, text in recordings(self, split, context):
            yield {INPUTS: text, TARGETS: path}

    @functools.cached_property
    def features(self) -> Mapping[str, Feature]:
        """A text and a sound."""
        return {**super().features, TARGETS: AudioCodes(sample_rate=self.sample_rate)}
