"""Recognition or classification of your own speech recordings, no code needed.

One instance of `speech_files`, of a file with a path, a TAB and a transcript on each line:
    inputs   recordings/0412.wav, about 32,000 samples of 16 kHz
    targets  turn the lights off

`speech_classify_files` has a class in place of the transcript. Paths are relative to the folder of the file that names
them; in an object store, --tmp_dir must name a folder that has them, since only the lists are downloaded otherwise.
WAV, FLAC, Ogg and MP3 files can be read, with the extra `audio`; channels are averaged, other rates resampled to 16
kHz. Changes to the recordings after generation are not detected, only changes to the lists of them. Source and licence
are those of the user's files.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from t2t.errors import UserError
from t2t.files.paths import address_of
from t2t.problems.array_inputs import Audio2Class, Speech2Text
from t2t.problems.base import Sample, Source
from t2t.problems.classify_files import check_label
from t2t.problems.line_shards import RECORDINGS_PER_SHARD
from t2t.problems.split_files import FilesOptions, Line, NamedFiles
from t2t.registry import register_problem
from t2t.specs.constants import INPUTS, TARGETS


def recordings(problem: NamedFiles, split: str, source: Source) -> Iterator[tuple[Line, Path, str]]:
    """Yields the position of each line, the path of the recording that it names and the text or class after it.

    Raises:
        UserError: a recording does not exist, or see `columns_of`.
    """
    for line, name, said in problem.columns_of(split, source):
        recording = line.path.parent / name
        if not os.path.isfile(recording):  # it may be no path but a text, longer than `Path.is_file` takes
            raise _missing(problem, line, recording)
        yield line, recording, said


def _missing(problem: NamedFiles, line: Line, recording: Path) -> UserError:
    if not address_of(recording):
        return problem.line_error(line, f"names {recording}, which is not there")
    return UserError(
        f"{line.path}, line {line.number:,}, names {recording}, which is not on this machine; of an object "
        f"store, the lists and all of --tmp_dir are downloaded; give --tmp_dir={line.path.parent}"
    )


@register_problem
class SpeechFiles(NamedFiles, Speech2Text):
    """Your own recordings to text, given by --train_file and --dev_file: lines of path TAB transcript."""

    _shard_lines = RECORDINGS_PER_SHARD
    line_form = "the path of a recording, a TAB and what is said in it"

    def generate_samples(self, split: str, source: Source) -> Iterator[Sample]:
        """Yields the recordings of a split, in the order of the files; see `recordings`."""
        for _, path, text in recordings(self, split, source):
            yield {INPUTS: path, TARGETS: text}


@register_problem
class SpeechClassifyFiles(NamedFiles, Audio2Class):
    """Your own recordings to your own classes, given by --train_file and --dev_file: lines of path TAB class."""

    _shard_lines = RECORDINGS_PER_SHARD
    line_form = "the path of a recording, a TAB and its class"
    options_class = FilesOptions

    def generate_samples(self, split: str, source: Source) -> Iterator[Sample]:
        """Yields the recordings of a split, in the order of the files; see `recordings` and `check_label`."""
        for line, path, label in recordings(self, split, source):
            check_label(self, line, label)
            yield {INPUTS: path, TARGETS: label}
