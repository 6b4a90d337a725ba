"""Translation from parallel text files that the problem names and the user provides.

A problem for a corpus that users fetch themselves takes a few lines::

    @register_problem
    class TranslateNlsvNews(TranslationFiles):
        source_language, target_language = "nl", "sv"
        split_files = {
            "train": ("news.train.nl.gz", "news.train.sv.gz"),
            "dev": ("news.dev.nl", "news.dev.sv"),
        }
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from t2t.errors import UserError
from t2t.files.line_blocks import read_pairs
from t2t.problems.base import Sample, Source
from t2t.problems.line_shards import blocks_to_read, count_blocks
from t2t.problems.text_problems import Text2Text
from t2t.specs.constants import INPUTS, SPLITS, TARGETS


class Translation(Text2Text):
    """Text in one language to text in another, for plug-ins; subclasses set the languages."""

    translates = True


class TranslationFiles(Text2Text):
    """Translation from pairs of files in the folder of raw files; line n of one translates line n of the other."""

    translates = True

    split_files: ClassVar[Mapping[str, Sequence[str]]] = {}
    """By split, the names of the source and the target file; of several corpora, one pair after the other. Each file is
    accepted with and without `.gz`."""
    _not_of_data = ("home",)
    home: ClassVar[str] = ""
    """Where users can get the files."""

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        cls.splits = tuple(split for split in SPLITS if split in cls.split_files)

    def shards(self, split: str, source: Source) -> int:
        """Returns the number of blocks into which the files of a split are cut."""
        return count_blocks(lambda: self._pairs(split, source), split, source)

    def generate_samples(self, split: str, source: Source) -> Iterator[Sample]:
        """Yields the pairs of lines of a split, or of one shard of it, in the files' order."""
        for sides in blocks_to_read(lambda: self._pairs(split, source), split, source):
            for source_line, target_line in read_pairs(sides, source.tally):
                yield {INPUTS: source_line, TARGETS: target_line}

    def _pairs(self, split: str, source: Source) -> list[list[Path]]:
        self.check_split(split)
        self.check_files(source.tmp_dir)
        paths = [path for name in self.split_files[split] if (path := locate(source.tmp_dir, name))]
        return [[source_path, target_path] for source_path, target_path in zip(paths[::2], paths[1::2], strict=True)]

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the files that exist, by their names in the folder, in which plain and packed files differ."""
        found = {name.removesuffix(".gz"): path for name in self.file_names() if (path := locate(tmp_dir, name))}
        return super().raw_files(tmp_dir) | {
            name + ".gz" * path.name.endswith(".gz"): path for name, path in found.items()
        }

    def requirements(self) -> str:
        """Returns the names of the files and where they come from."""
        names = ", ".join(self.file_names())
        return f"{names} (with or without .gz) in --tmp_dir" + (f"; from {self.home}" if self.home else "")

    def file_names(self) -> list[str]:
        """Returns the names of all files that are needed."""
        return [name for split in self.splits for name in self.split_files[split]]

    def check_files(self, folder: Path) -> None:
        """Raises UserError if files are missing from the folder of raw files."""
        names = self.file_names()
        missing = [name for name in names if locate(folder, name) is None]
        if missing:
            raise UserError(
                f"{self.name}: {len(missing)} of its {len(names)} raw files are missing from {folder}: "
                f"{', '.join(missing)}; put them there (with or without .gz) or name their folder with --tmp_dir"
                + (f"; they come from {self.home}" if self.home else "")
            )


def locate(folder: Path, name: str) -> Path | None:
    """Returns the path of a file under its name, or else with `.gz` added or removed; None if neither exists."""
    other = name.removesuffix(".gz") if name.endswith(".gz") else name + ".gz"
    for candidate in (Path(folder) / name, Path(folder) / other):
        if candidate.is_file():
            return candidate
    return None
