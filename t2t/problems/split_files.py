"""Problems whose user names the files of each split: --train_file, --dev_file, --test_file, or pairs of such."""

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from t2t.errors import UserError
from t2t.problems.base import Problem, Source
from t2t.problems.line_shards import Blocks, blocks_to_read, every_shard
from t2t.problems.options import ProblemOptions, file_option
from t2t.problems.text_problems import TextOptions
from t2t.specs.constants import DEV, SPLITS, TEST, TRAIN

_NEEDED = (TRAIN, DEV)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FilesOptions(ProblemOptions):
    """Where the files are."""

    train_file: str = file_option(many=True)
    """File of the training examples, one a line, plain or .gz."""
    dev_file: str = file_option(many=True)
    """File of the examples that training is evaluated on."""
    test_file: str = file_option(many=True)
    """File of the test examples; optional."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FilesAndTextOptions(FilesOptions, TextOptions):
    """Where the files are, and which vocabulary their text gets."""


class NamedFiles(Problem):
    """Problems whose options name the files; to be put before the base class that says what they hold.

    An option may name several files, which are read one after the other, see `named_files`. Each of them, and each
    part of a large plain one, is a shard.

    Raises:
        UserError: some of the files are given and others, without which they are of no use, are not.
    """

    file_sides: ClassVar[tuple[str, ...]] = ("file",)
    """The options of a split: `--<split>_<side>`."""
    _shard_lines: ClassVar[int | None] = None  # of one shard, where they stand for something larger than text

    def __init__(self, **options: Any):
        super().__init__(**options)
        given = tuple(split for split in SPLITS if any(self.paths_of(split)))
        self.splits = given or _NEEDED
        if given:
            self._check_given()

    def paths_of(self, split: str) -> tuple[str, ...]:
        """Returns the options of a split by side, empty where one is not given."""
        return tuple(getattr(self.options, f"{split}_{side}") for side in self.file_sides)

    def files_of(self, split: str) -> list[tuple[Path, ...]]:
        """Returns the files of a split in order, the sides that belong together in one tuple.

        Raises:
            UserError: there is another number of files on one side than on another.
        """
        sides = {f"--{split}_{side}": self.options.paths(f"{split}_{side}") for side in self.file_sides}
        if len({len(files) for files in sides.values()}) > 1:
            counts = " and ".join(f"{len(files):,} with {flag}" for flag, files in sides.items())
            raise UserError(
                f"{self.name}: {counts} are named; file n of one must go with file n of the other; name as many of each"
            )
        return list(zip(*sides.values(), strict=True))

    def check_files(self, split: str) -> None:
        """Raises UserError where no files were named, the split has none or some do not exist; all are listed."""
        self._check_given()
        self.check_split(split)
        missing = [
            f"--{name.partition(' ')[0]}={path}" for name, path in self._named_files().items() if not path.is_file()
        ]
        if missing:
            raise UserError(f"{self.name}: there is no such file: {', '.join(missing)}; check the paths")

    def shards(self, split: str, source: Source) -> int:
        """Returns the number of files of a split, of a large plain one that of its blocks."""
        return len(every_shard(self._checked_files(split), split, source, self._shard_lines))

    def blocks(self, split: str, source: Source) -> list[Blocks]:
        """Returns what is to be read of a split's files, in order; of each block, the sides are in one tuple.

        Raises:
            UserError: see `check_files`, `files_of` and `cut_files`.
        """
        return blocks_to_read(self._checked_files(split), split, source, self._shard_lines)

    def _checked_files(self, split: str) -> list[tuple[Path, ...]]:
        self.check_files(split)
        return self.files_of(split)

    def requirements(self) -> str:
        """Returns which flags name which files."""
        needed = ", ".join(f"{flag}=FILE" for flag in self._files(_NEEDED))
        tests = " and ".join(f"{flag}=FILE" for flag in self._files((TEST,)))
        return f"{needed}, and if there is a test set {tests}"

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the files by the names of their options, numbered where an option names several."""
        return super().raw_files(tmp_dir) | self._named_files()

    def _named_files(self) -> dict[str, Path]:
        options = [flag.removeprefix("--") for flag in self._files(SPLITS)]
        return {name: path for option in options for name, path in self.options.numbered_paths(option).items()}

    def _files(self, splits: Iterable[str]) -> dict[str, str]:
        """Returns the options of some splits by their flags."""
        return {
            f"--{split}_{side}": path
            for split in splits
            for side, path in zip(self.file_sides, self.paths_of(split), strict=True)
        }

    def _check_given(self) -> None:
        wanted = self._files(split for split in SPLITS if split in (*self.splits, *_NEEDED))
        missing = [flag for flag, path in wanted.items() if not path]
        if missing:
            named = [f"{flag}={path}" for flag, path in self._files(SPLITS).items() if path]
            raise UserError(
                f"{self.name or type(self).__name__}: {', '.join(missing)} not given; "
                f"{'found ' + ', '.join(named) if named else 'no file was named'}; it needs {self.requirements()}"
            )


class Line(NamedTuple):
    """The place of a line."""

    path: Path
    number: int
    """Counted from 1."""


class SplitFiles(NamedFiles):
    """Reads the lines of a split's files."""

    line_form: ClassVar[str] = ""
    """What a line must be, for messages."""
    options_class: ClassVar[type[ProblemOptions]] = FilesAndTextOptions

    def lines(self, split: str, source: Source) -> Iterator[tuple[Line, str]]:
        """Yields the lines of a split, or of one shard of it, that are not empty, after their places.

        Raises:
            UserError: no files were named, some do not exist, or a file cannot be read.
        """
        for (block,) in self.blocks(split, source):
            for number, line in enumerate(block.read(source.tally), block.first):
                if line.strip():
                    yield Line(block.path, number), line

    def columns_of(self, split: str, source: Source) -> Iterator[tuple[Line, str, str]]:
        """Yields the two columns of each line of a split, apart at its first TAB, after the line's place.

        Raises:
            UserError: a line has no TAB, or see `lines`.
        """
        for place, line in self.lines(split, source):
            left, tab, right = line.partition("\t")
            if not tab:
                raise self.line_error(place, f"has no TAB: {line[:40]!r}")
            yield place, left.strip(), right.strip()

    def line_error(self, place: Line, found: str) -> UserError:
        """Returns an error about one line."""
        return UserError(f"{place.path}, line {place.number:,}, {found}; a line is {self.line_form}; correct the file")

    def requirements(self) -> str:
        """Returns which flags name which files, and what a line is."""
        return f"{super().requirements()}; a line is {self.line_form}"
