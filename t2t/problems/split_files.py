"""Problems whose user names the files of each split: --train_file, --dev_file, --test_file, or pairs of such."""

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from t2t.errors import UserError
from t2t.files.lines import read_lines
from t2t.problems.base import Problem, ProblemOptions, Source, file_option
from t2t.problems.text_problems import TextOptions
from t2t.specs.constants import DEV, SPLITS, TEST, TRAIN

_NEEDED = (TRAIN, DEV)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FilesOptions(ProblemOptions):
    """Where the files are."""

    train_file: str = file_option()
    """File of the training examples, one a line, plain or .gz."""
    dev_file: str = file_option()
    """File of the examples that training is evaluated on."""
    test_file: str = file_option()
    """File of the test examples; optional."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FilesAndTextOptions(FilesOptions, TextOptions):
    """Where the files are, and which vocabulary their text gets."""


class NamedFiles(Problem):
    """Problems whose options name the files; to be put before the base class that says what they hold.

    Raises:
        UserError: some of the files are given and others, without which they are of no use, are not.
    """

    file_sides: ClassVar[tuple[str, ...]] = ("file",)
    """The options of a split: `--<split>_<side>`."""

    def __init__(self, **options: Any):
        super().__init__(**options)
        given = tuple(split for split in SPLITS if any(self.paths_of(split)))
        self.splits = given or _NEEDED
        if given:
            self._check_given()

    def paths_of(self, split: str) -> tuple[str, ...]:
        """Returns the paths of a split's files by side, empty where an option is not given."""
        return tuple(getattr(self.options, f"{split}_{side}") for side in self.file_sides)

    def check_files(self, split: str) -> None:
        """Raises UserError where no files were named, the split has none or some do not exist; all are listed."""
        self._check_given()
        self.check_split(split)
        missing = [f"{flag}={path}" for flag, path in self._files(SPLITS).items() if path and not Path(path).is_file()]
        if missing:
            raise UserError(f"{self.name}: there is no such file: {', '.join(missing)}; check the paths")

    def requirements(self) -> str:
        """Returns which flags name which files."""
        needed = ", ".join(f"{flag}=FILE" for flag in self._files(_NEEDED))
        tests = " and ".join(f"{flag}=FILE" for flag in self._files((TEST,)))
        return f"{needed}, and if there is a test set {tests}"

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the files by the names of their options."""
        named = {flag.removeprefix("--"): Path(path) for flag, path in self._files(SPLITS).items() if path}
        return super().raw_files(tmp_dir) | named

    def _files(self, splits: Iterable[str]) -> dict[str, str]:
        """Returns the paths of some splits by the flags that give them."""
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


class SplitFiles(NamedFiles):
    """Reads lines of one file a split."""

    line_form: ClassVar[str] = ""
    """What a line must be, for messages."""
    options_class: ClassVar[type[ProblemOptions]] = FilesAndTextOptions

    def lines(self, split: str, source: Source) -> Iterator[tuple[int, str]]:
        """Yields the lines of a split that are not empty, and their numbers, counted from 1.

        Raises:
            UserError: no files were named, some do not exist, or a file cannot be read.
        """
        self.check_files(split)
        for number, line in enumerate(read_lines(self._path(split), source.tally), 1):
            if line.strip():
                yield number, line

    def columns_of(self, split: str, source: Source) -> Iterator[tuple[int, str, str]]:
        """Yields the two columns of each line of a split, apart at its first TAB, after the line's number.

        Raises:
            UserError: a line has no TAB, or see `lines`.
        """
        for number, line in self.lines(split, source):
            left, tab, right = line.partition("\t")
            if not tab:
                raise self.line_error(split, number, f"has no TAB: {line[:40]!r}")
            yield number, left.strip(), right.strip()

    def line_error(self, split: str, number: int, found: str) -> UserError:
        """Returns an error about one line of a split's file, counted from 1."""
        return UserError(f"{self._path(split)}, line {number:,}, {found}; a line is {self.line_form}; correct the file")

    def requirements(self) -> str:
        """Returns which flags name which files, and what a line is."""
        return f"{super().requirements()}; a line is {self.line_form}"

    def _path(self, split: str) -> str:
        return self.paths_of(split)[0]
