"""Common Voice: sentences read aloud by volunteers.

One instance:
    inputs   common_voice_en_19.mp3
    targets  She had forgotten the way home.

The splits are listed in `train.tsv`, `dev.tsv` and `test.tsv` in the folder of a language; recordings are MP3 files in
`clips` next to them. WAV files of the same names are accepted.
Source: Ardila et al. 2020, "Common Voice: A massively-multilingual speech corpus" (arXiv:1912.06670),
https://commonvoice.mozilla.org. Licence: CC0.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from t2t.errors import UserError
from t2t.files.lines import read_lines
from t2t.problems.archives import find_first_existing
from t2t.problems.array_inputs import Speech2Text
from t2t.problems.base import GenerationContext, Sample
from t2t.problems.split_files import RECORDINGS_PER_SHARD, blocks_to_read, count_blocks
from t2t.registry import register_problem
from t2t.specs import DEV, INPUTS, TARGETS, TEST, TRAIN


@register_problem
class CommonVoice(Speech2Text):
    """English sentences read by volunteers (Common Voice, from its own folder)."""

    splits = (TRAIN, DEV, TEST)
    language: ClassVar[str] = "en"
    """Code of the language, which is the name of its folder."""

    def shards(self, split: str, context: GenerationContext) -> int:
        """Returns the number of blocks of 1,000 recordings in the list of a split."""
        return count_blocks(lambda: [(self._list(split, context),)], split, context, RECORDINGS_PER_SHARD)

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the sentences of a split, in the order of its list."""
        path = self._list(split, context)
        for number, row in self._rows(path, split, context):
            if row.get("path") is None or row.get("sentence") is None:
                raise UserError(f"{path}: columns {', '.join(map(str, row))}", "it needs path and sentence")
            clip = Path(row["path"])
            if not clip.name:
                raise UserError(
                    f"{path}, line {number:,}, has {row['path']!r} as its path, which must name a file in clips",
                    "correct the file",
                )
            names = [str(clip.with_suffix(".wav")), str(clip), f"{clip}.mp3"]
            recording = find_first_existing(path.parent / "clips", names)
            if recording is None:
                raise UserError(f"{path}: clips/{clip} is not there", "unpack the archive again")
            yield {INPUTS: recording, TARGETS: row["sentence"].strip()}

    def _list(self, split: str, context: GenerationContext) -> Path:
        self.check_split(split)
        folder = self._folder(context.tmp_dir)
        if folder is None:
            raise UserError(
                f"{self.name}: train.tsv is missing from {context.tmp_dir}", f"it needs {self.requirements()}"
            )
        return folder / f"{split}.tsv"

    def _rows(self, path: Path, split: str, context: GenerationContext) -> Iterator[tuple[int, dict[str, str]]]:
        """Yields the rows of a list, or of one shard of it, each without the columns that its line lacks.

        Each comes with the number of its line, from 1. The first line of the file names the columns; empty lines are
        left out.
        """
        columns = next(read_lines(path, Counter()), "").split("\t")
        for (block,) in blocks_to_read(lambda: [(path,)], split, context, RECORDINGS_PER_SHARD):
            for number, line in enumerate(block.read(context.tally), block.first):
                if line and number > 1:
                    yield number, dict(zip(columns, line.split("\t"), strict=False))

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the lists that exist; recordings are not included."""
        folder = self._folder(tmp_dir)
        lists = {f"{split}.tsv": folder / f"{split}.tsv" for split in self.splits} if folder else {}
        return super().raw_files(tmp_dir) | lists

    def requirements(self) -> str:
        """Returns which files are looked for."""
        return f"{self.language}/train.tsv, dev.tsv, test.tsv and clips/ in --tmp_dir, or in --tmp_dir/cv-corpus-*"

    def _folder(self, tmp_dir: Path) -> Path | None:
        """Returns the folder of the language; of several releases, the latest by name."""
        folders = [
            Path(tmp_dir) / self.language,
            *sorted(Path(tmp_dir).glob(f"cv-corpus-*/{self.language}"), reverse=True),
        ]
        return next((place for place in folders if (place / "train.tsv").is_file()), None)
