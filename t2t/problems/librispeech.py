"""LibriSpeech: 1,000 hours of English read from books.

One instance:
    inputs   174-50561-0000.flac, 16 kHz
    targets  FORGOTTEN TOO THE NAME GILLIAN THE LOVELY CAPTIVE

`librispeech` learns from all of it and is evaluated on the clean and the noisier parts, `librispeech_clean` on the
clean ones alone, `librispeech_clean_small` learns from the first 100 hours. The few training examples of more than 20
seconds are dropped. An hour takes 230 MB as it is stored.
Source: Panayotov et al. 2015, "LibriSpeech: An ASR corpus based on public domain audio books",
https://www.openslr.org/12; its own folder (WAV files of the same names will do), or TensorFlow Datasets
(`librispeech`). Licence: CC BY 4.0.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from t2t.errors import UserError
from t2t.files.lines import clean_line, read_lines
from t2t.problems.array_inputs import Speech2Text
from t2t.problems.base import Sample, Source
from t2t.problems.formats.archive import find_first_existing
from t2t.problems.formats.tfds import FOLDER, read_tfds
from t2t.registry import register_problem
from t2t.specs.constants import DEV, INPUTS, TARGETS, TEST, TRAIN

_FOLDER = "LibriSpeech"
_ENDS = (".wav", ".flac")
_CLEAN = {TRAIN: ("train-clean-100", "train-clean-360"), DEV: ("dev-clean",), TEST: ("test-clean",)}


@register_problem
class Librispeech(Speech2Text):
    """English read from books (LibriSpeech, 960 hours)."""

    splits = (TRAIN, DEV, TEST)
    parts: ClassVar[Mapping[str, Sequence[str]]] = {
        TRAIN: (*_CLEAN[TRAIN], "train-other-500"),
        DEV: ("dev-clean", "dev-other"),
        TEST: ("test-clean", "test-other"),
    }
    """By split, the parts of the corpus."""

    def generate_samples(self, split: str, source: Source) -> Iterator[Sample]:
        """Yields the sentences of a split: from the corpus's own folder where it is there, else through TFDS."""
        self.check_split(split)
        root = Path(source.tmp_dir) / _FOLDER
        for part in self.parts[split]:
            yield from self._of_folder(root / part, source) if root.is_dir() else self._of_tfds(part, source)

    def requirements(self) -> str:
        """Returns which folder is looked for, and what else is read."""
        return f"{_FOLDER} in --tmp_dir; else librispeech of TensorFlow Datasets in --tmp_dir/{FOLDER}"

    def _of_folder(self, folder: Path, source: Source) -> Iterator[Sample]:
        lists = sorted(folder.glob("*/*/*.trans.txt"))
        if not lists:
            raise UserError(f"{self.name}: {folder} has no transcripts (*/*/*.trans.txt); unpack its archive there")
        for path in lists:
            for line in read_lines(path, source.tally):
                name, _, text = line.strip().partition(" ")
                recording = find_first_existing(path.parent, [name + end for end in _ENDS])
                if recording is None:
                    raise UserError(f"{path}: {name}{' or '.join(_ENDS)} is not there; unpack the archive again")
                yield {INPUTS: recording, TARGETS: text}

    def _of_tfds(self, part: str, source: Source) -> Iterator[Sample]:
        split = part.replace("clean-", "clean").replace("other-", "other").replace("-", "_")
        instead = f"; or unpack the corpus's archives, which make a folder {_FOLDER}, in {source.tmp_dir}"
        for example in read_tfds(self.name, "librispeech", split, source, instead):
            waveform = example["speech"].astype(np.float32) / 2**15
            yield {INPUTS: waveform, TARGETS: clean_line(example["text"], source.tally)}


@register_problem
class LibrispeechClean(Librispeech):
    """English read from books, the clean parts (LibriSpeech, 460 hours)."""

    parts = _CLEAN


@register_problem
class LibrispeechCleanSmall(Librispeech):
    """English read from books, the first of the clean parts (LibriSpeech, 100 hours)."""

    parts = {**_CLEAN, TRAIN: ("train-clean-100",)}
