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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from t2t.hparams.field import param
from t2t.problems.base import Sample, Source
from t2t.problems.filters.sample_filter import SampleFilter
from t2t.problems.filters.text_filters import text_filters
from t2t.problems.formats.audio import MU, mu_law_codes, mu_law_waveform, read_audio, resampled, wav_file
from t2t.problems.samples import shown, text_fault
from t2t.problems.speech_files import ListedRecordings
from t2t.problems.split_files import FilesAndTextOptions
from t2t.problems.text_problems import TextProblem
from t2t.registry import register_problem
from t2t.specs.constants import INPUTS, TARGETS
from t2t.specs.features import ProblemSpec
from t2t.text.encoder import TextEncoder
from t2t.text.token import TokenEncoder

CODES = tuple(map(str, range(MU + 1)))
MAX_SECONDS = 20.0
"""Longer training examples are dropped."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpeechGenerationOptions(FilesAndTextOptions):
    """The files of each split, the vocabulary of their text, and the sample rate of the sound."""

    sample_rate: int = param(
        0, "Samples per second of the sound that is generated; 0 for the problem's own, 16,000.", minimum=0
    )


@register_problem
class SpeechGenerateFiles(ListedRecordings, TextProblem):
    """Generates your own recordings from classes or texts; --train_file and --dev_file have lines of path TAB text."""

    line_form = "the path of a recording, a TAB and its class or text"
    options_class: ClassVar[type[SpeechGenerationOptions]] = SpeechGenerationOptions
    vocab_kind = "byte"
    shared_vocabulary = False
    metrics = ("neg_log_perplexity", "accuracy")
    chunk_size = 32
    output_suffix = ".wav"
    sample_rate: int = 16_000
    """Samples per second of stored and generated sound; files of another rate are resampled."""

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.sample_rate = self.options.sample_rate or self.sample_rate
        self.max_length = round(MAX_SECONDS * self.sample_rate) + 1

    def generate_samples(self, split: str, source: Source) -> Iterator[Sample]:
        """Yields the recordings of a split, in the order of the files; see `recordings`."""
        for _, path, text in self.recordings(split, source):
            yield {INPUTS: text, TARGETS: path}

    @property
    def vocab_features(self) -> tuple[str, ...]:
        """The text: the vocabulary of the codes is fixed."""
        return (INPUTS,)

    def build_encoders(self, source: Source) -> dict[str, TextEncoder]:
        """Learns or reads the vocabulary of the text; that of the codes is fixed."""
        names = self.vocab_features
        known = self._fixed_encoders(names) or {INPUTS: self._learn(names, source.fork())}
        return {**known, TARGETS: TokenEncoder(CODES)}

    def sample_filters(self) -> Sequence[SampleFilter]:
        """The filters of the text that the options ask for; the recording is none.

        Raises:
            UserError: a filter needs two texts.
        """
        return tuple(text_filters(self.options, (INPUTS,), {INPUTS: self.source_language}))

    def sample_fault(self, sample: Any) -> str:
        """The text must be a str, the recording a path."""
        path = f"the pathlib.Path of a recording for {TARGETS!r}"
        if fault := text_fault(sample, (INPUTS,), f" and {path}"):
            return fault
        if isinstance(sample.get(TARGETS), Path):
            return ""
        return f"has {shown(sample.get(TARGETS))} for {TARGETS!r}; it must be {path}"

    def nominal_vocab_size(self, feature: str) -> int:
        """The number of codes and reserved ids, or the size of the text's vocabulary."""
        return TokenEncoder(CODES).vocab_size if feature == TARGETS else super().nominal_vocab_size(feature)

    def nominal_spec(self) -> ProblemSpec | None:
        """The features with nominal vocabulary sizes; text and codes never share a vocabulary."""
        spec = super().nominal_spec()
        return spec and dataclasses.replace(spec, shared_vocabulary=False)

    def encode_samples(self, samples: list[Sample]) -> list[dict[str, np.ndarray]]:
        """Encodes the texts, and reads and encodes the recordings, end of sequence added to both."""
        texts = self.encoders[INPUTS].encode_ended([sample[INPUTS] for sample in samples])
        sounds = self.encoders[TARGETS].encode_ended([self._codes(sample[TARGETS]) for sample in samples])
        return [{INPUTS: text, TARGETS: sound} for text, sound in zip(texts, sounds, strict=True)]

    def output_file(self, output: str) -> bytes:
        """Returns a WAV file of the codes of an output; other words are left out."""
        codes = np.array([int(word) for word in output.split() if word.isdecimal()], np.uint8)
        return wav_file(mu_law_waveform(codes), self.sample_rate)

    def _codes(self, path: Path) -> str:
        waveform, rate = read_audio(path)
        return " ".join(map(str, mu_law_codes(resampled(waveform, rate, self.sample_rate)).tolist()))
