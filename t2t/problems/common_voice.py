"""Common Voice: sentences read by volunteers.

One instance:
    inputs   common_voice_en_19.mp3
    targets  She had forgotten the way home.

Train, dev and test are those of `train.tsv`, `dev.tsv` and `test.tsv` in the folder of a language, recordings are in
`clips` next to them, as MP3 files; WAV files of the same names will do.
Source: Ardila et al. 2020, "Common Voice: A massively-multilingual speech corpus" (arXiv:1912.06670),
https://commonvoice.mozilla.org. Licence: CC0.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from t2t.errors import UserError
from t2t.files.lines import read_lines
from t2t.problems.array_inputs import Speech2Text
from t2t.problems.base import Sample, Source
from t2t.problems.formats.archive import find_first_existing
from t2t.registry import register_problem
from t2t.specs.constants import DEV, INPUTS, TARGETS, TEST, TRAIN


@register_problem
class CommonVoice(Speech2Text):
    """English sentences read by volunteers (Common Voice, from its own folder)."""

    splits = (TRAIN, DEV, TEST)
    language: ClassVar[str] = "en"
    """Code of the language, as its folder is called."""

    def generate_samples(self, split: str, source: Source) -> Iterator[Sample]:
        """Yields the sentences of a split, in the order of its list."""
        self.check_split(split)
        folder = self._folder(source.tmp_dir)
        if folder is None:
            raise UserError(f"{self.name}: train.tsv is missing from {source.tmp_dir}; it needs {self.requirements()}")
        lines = read_lines(folder / f"{split}.tsv", source.tally)
        for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
            if row.get("path") is None or row.get("sentence") is None:
                raise UserError(f"{folder / split}.tsv: columns {', '.join(map(str, row))}; it needs path and sentence")
            clip = Path(row["path"])
            names = [str(clip.with_suffix(".wav")), str(clip), f"{clip}.mp3"]
            recording = find_first_existing(folder / "clips", names)
            if recording is None:
                raise UserError(f"{folder / split}.tsv: clips/{clip} is not there; unpack the archive again")
            yield {INPUTS: recording, TARGETS: row["sentence"].strip()}

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the lists that are there; the recordings are not looked at."""
        folder = self._folder(tmp_dir)
        lists = {f"{split}.tsv": folder / f"{split}.tsv" for split in self.splits} if folder else {}
        return super().raw_files(tmp_dir) | lists

    def requirements(self) -> str:
        """Returns which files are looked for."""
        return f"{self.language}/train.tsv, dev.tsv, test.tsv and clips/ in --tmp_dir, or in --tmp_dir/cv-corpus-*"

    def _folder(self, tmp_dir: Path) -> Path | None:
        """Returns the folder of the language, of the latest release by name where there are several."""
        places = [
            Path(tmp_dir) / self.language,
            *sorted(Path(tmp_dir).glob(f"cv-corpus-*/{self.language}"), reverse=True),
        ]
        return next((place for place in places if (place / "train.tsv").is_file()), None)
