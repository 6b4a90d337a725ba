"""LibriSpeech: 1,000 hours of English read aloud from books.

One instance:
    inputs   174-50561-0000.flac, 16 kHz
    targets  FORGOTTEN TOO THE NAME GILLIAN THE LOVELY CAPTIVE

`librispeech` trains on all of it and is evaluated on the clean and the noisier parts; `librispeech_clean` uses only the
clean ones, and `librispeech_clean_small` trains on the first 100 hours of these; `librispeech_noisy` uses only the
noisier ones. `librispeech_train_full_test_clean` and `_test_other` train on all and are evaluated on one of them. The
few training examples of more than 20 seconds are dropped. The stored data takes 230 MB per hour of speech.
Source: Panayotov et al. 2015, "LibriSpeech: An ASR corpus based on public domain audio books",
https://www.openslr.org/12; its own folder (WAV files of the same names are accepted), or TensorFlow Datasets
(`librispeech`). Licence: CC BY 4.0.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from t2t.errors import UserError
from t2t.files.lines import clean_line, read_lines
from t2t.problems.archives import find_first_existing
from t2t.problems.array_inputs import Speech2Text
from t2t.problems.base import GenerationContext, Sample, subclass
from t2t.problems.tfds import TfdsSplit, tfds_requirement
from t2t.registry import register_problem
from t2t.specs import DEV, INPUTS, TARGETS, TEST, TRAIN

_FOLDER, _DATASET = "LibriSpeech", "librispeech"
_TRANSCRIPTS = "*/*/*.trans.txt"
_TRANSCRIPTS_PER_SHARD = 20
"""Files of transcripts in a shard; each has about fifty recordings."""
_ENDS = (".wav", ".flac")
_NOISY = {TRAIN: ("train-other-500",), DEV: ("dev-other",), TEST: ("test-other",)}
_CLEAN = {TRAIN: ("train-clean-100", "train-clean-360"), DEV: ("dev-clean",), TEST: ("test-clean",)}


@register_problem
class Librispeech(Speech2Text):
    """English read from books (LibriSpeech, 960 hours)."""

    splits = (TRAIN, DEV, TEST)
    parts: ClassVar[Mapping[str, Sequence[str]]] = {
        split: (*_CLEAN[split], *_NOISY[split]) for split in (TRAIN, DEV, TEST)
    }
    """By split, the parts of the corpus."""

    def shards(self, split: str, context: GenerationContext) -> int:
        """Returns the number of groups of transcripts of all parts, or of files where TensorFlow Datasets has them."""
        self.check_split(split)
        return sum(self._count_shards(part, context) for part in self.parts[split])

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the sentences of a split, from the corpus's own folder if it exists, else through TFDS."""
        self.check_split(split)
        read = self._of_folder if _root(context).is_dir() else self._of_tfds
        for part, part_source in self._parts_to_read(split, context):
            yield from read(part, part_source)
            if part_source is not context:
                context.skipped += part_source.skipped

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the transcripts that exist, by their paths in the corpus; recordings are not included."""
        root = Path(tmp_dir) / _FOLDER
        folders = [root / part for parts in self.parts.values() for part in parts]
        found = [path for folder in folders for path in sorted(folder.glob(_TRANSCRIPTS))]
        return super().raw_files(tmp_dir) | {path.relative_to(root).as_posix(): path for path in found}

    def requirements(self) -> str:
        """Returns which folder is looked for, and what else is read."""
        return f"{_FOLDER} in --tmp_dir; else {tfds_requirement(_DATASET)}"

    def _parts_to_read(self, split: str, context: GenerationContext) -> Iterator[tuple[str, GenerationContext]]:
        """Yields the parts of a split, or the one with the requested shard, each with a context of its shards."""
        before = 0
        for part in self.parts[split]:
            if context.shards == 1:
                yield part, context
                continue
            count = self._count_shards(part, context)
            if before <= context.shard < before + count:
                yield part, dataclasses.replace(context, shard=context.shard - before, shards=count)
            before += count

    def _count_shards(self, part: str, context: GenerationContext) -> int:
        if _root(context).is_dir():
            return math.ceil(len(self._transcripts(_root(context) / part)) / _TRANSCRIPTS_PER_SHARD)
        return TfdsSplit(self.name, _DATASET, _tfds_split(part), context, _instead(context)).count_shards()

    def _transcripts(self, folder: Path) -> list[Path]:
        found = sorted(folder.glob(_TRANSCRIPTS))
        if not found:
            raise UserError(f"{self.name}: {folder} has no transcripts ({_TRANSCRIPTS})", "unpack its archive there")
        return found

    def _of_folder(self, part: str, context: GenerationContext) -> Iterator[Sample]:
        first = context.shard * _TRANSCRIPTS_PER_SHARD
        last = first + _TRANSCRIPTS_PER_SHARD if context.shards > 1 else None
        for path in self._transcripts(_root(context) / part)[first:last]:
            for line in read_lines(path, context.tally):
                name, _, text = line.strip().partition(" ")
                recording = find_first_existing(path.parent, [name + end for end in _ENDS])
                if recording is None:
                    raise UserError(f"{path}: {name}{' or '.join(_ENDS)} is not there", "unpack the archive again")
                yield {INPUTS: recording, TARGETS: text}

    def _of_tfds(self, part: str, context: GenerationContext) -> Iterator[Sample]:
        examples = TfdsSplit(self.name, _DATASET, _tfds_split(part), context, _instead(context)).read(only_text=False)
        for example in examples:
            waveform = example["speech"].astype(np.float32) / 2**15
            yield {INPUTS: waveform, TARGETS: clean_line(example["text"], context.tally)}


def _root(context: GenerationContext) -> Path:
    return Path(context.tmp_dir) / _FOLDER


def _tfds_split(part: str) -> str:
    """`train-clean-100` -> `train_clean100`."""
    return part.replace("clean-", "clean").replace("other-", "other").replace("-", "_")


def _instead(context: GenerationContext) -> str:
    return f"; or unpack the corpus's archives, which make a folder {_FOLDER}, in {context.tmp_dir}"


_TRAIN = {TRAIN: Librispeech.parts[TRAIN]}
for _name, _summary, _parts in (
    ("clean", "English read from books, the clean parts (LibriSpeech, 460 hours).", _CLEAN),
    ("clean_small", "English read from books, the first of the clean parts (LibriSpeech, 100 hours).",
     {**_CLEAN, TRAIN: ("train-clean-100",)}),
    ("noisy", "English read from books, the noisier parts (LibriSpeech, 500 hours).", _NOISY),
    ("train_full_test_clean", "English read from books (LibriSpeech, 960 hours), evaluated on the clean parts.",
     {**_CLEAN, **_TRAIN}),
    ("train_full_test_other", "English read from books (LibriSpeech, 960 hours), evaluated on the noisier parts.",
     {**_NOISY, **_TRAIN}),
):  # fmt: skip
    _name = f"librispeech_{_name}"
    register_problem(_name)(subclass(Librispeech, _name, _summary, __name__, parts=_parts))
