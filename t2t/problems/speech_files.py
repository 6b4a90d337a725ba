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
from t2t.problems.classify_files import LabelledFiles
from t2t.problems.line_shards import RECORDINGS_PER_SHARD
from t2t.problems.split_files import FilesOptions, Line, SplitFiles
from t2t.registry import register_problem
from t2t.specs.constants import INPUTS, TARGETS


class ListedRecordings(SplitFiles):
    """Files with lines that name a recording, followed by its text or class."""

    _shard_lines = RECORDINGS_PER_SHARD

    def recordings(self, split: str, source: Source) -> Iterator[tuple[Line, Path, str]]:
        """Yields the position of each line, the path of the recording and the text or class.

        Raises:
            UserError: a recording does not exist, or see `columns_of`.
        """
        for place, name, said in self.columns_of(split, source):
            recording = place.path.parent / name
            if not os.path.isfile(recording):  # it may be no path but a text, longer than `Path.is_file` takes
                raise self._missing(place, recording)
            yield place, recording, said

    def _missing(self, place: Line, recording: Path) -> UserError:
        if not address_of(recording):
            return self.line_error(place, f"names {recording}, which is not there")
        return UserError(
            f"{place.path}, line {place.number:,}, names {recording}, which is not on this machine; of an object "
            f"store, the lists and all of --tmp_dir are downloaded; give --tmp_dir={place.path.parent}"
        )


@register_problem
class SpeechFiles(ListedRecordings, Speech2Text):
    """Your own recordings to text, given by --train_file and --dev_file: lines of path TAB transcript."""

    line_form = "the path of a recording, a TAB and what is said in it"

    def generate_samples(self, split: str, source: Source) -> Iterator[Sample]:
        """Yields the recordings of a split, in the order of the files; see `recordings`."""
        for _, path, text in self.recordings(split, source):
            yield {INPUTS: path, TARGETS: text}


@register_problem
class SpeechClassifyFiles(ListedRecordings, LabelledFiles, Audio2Class):
    """Your own recordings to your own classes, given by --train_file and --dev_file: lines of path TAB class."""

    line_form = "the path of a recording, a TAB and its class"
    options_class = FilesOptions

    def generate_samples(self, split: str, source: Source) -> Iterator[Sample]:
        """Yields the recordings of a split, in the order of the files; see `recordings` and `check_label`."""
        for place, path, label in self.recordings(split, source):
            self.check_label(place, label)
            yield {INPUTS: path, TARGETS: label}
