"""What problems share whose user names one file for each split: --train_file, --dev_file, --test_file."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from t2t.errors import UserError
from t2t.files.lines import read_lines
from t2t.problems.base import Problem, ProblemOptions, Source, file_option
from t2t.problems.text_problems import TextOptions
from t2t.specs.constants import DEV, SPLITS, TRAIN

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


class SplitFiles(Problem):
    """Reads lines of the files that the options name; to be put before the base class that says what they are.

    Raises:
        UserError: some of the files are given and others, without which they are of no use, are not.
    """

    line_form: ClassVar[str] = ""
    """What a line must be, for messages."""
    options_class: ClassVar[type[ProblemOptions]] = FilesAndTextOptions

    def __init__(self, **options: Any):
        super().__init__(**options)
        given = [split for split in SPLITS if self._path(split)]
        if given:
            self._check_given()
        self.splits = tuple(given) or _NEEDED

    def lines(self, split: str, source: Source) -> Iterator[tuple[int, str]]:
        """Yields the lines of a split that are not empty, and their numbers, counted from 1.

        Raises:
            UserError: no files were named, some do not exist, or a file cannot be read.
        """
        self._check_given()
        self.check_split(split)
        missing = [f"{_flag(s)}={self._path(s)}" for s in SPLITS if self._path(s) and not Path(self._path(s)).is_file()]
        if missing:
            raise UserError(f"{self.name}: there is no such file: {', '.join(missing)}; check the paths")
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
        """Returns an error about one line of a file.

        Args:
            split: of the file.
            number: of the line, counted from 1.
            found: what is wrong, said of the line.
        """
        return UserError(f"{self._path(split)}, line {number:,}, {found}; a line is {self.line_form}; correct the file")

    def requirements(self) -> str:
        """Returns which flags name which files."""
        needed = ", ".join(f"{_flag(split)}=FILE" for split in _NEEDED)
        return f"{needed}, and if there is a test set --test_file=FILE; a line is {self.line_form}"

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the files by the names of their options."""
        named = {f"{split}_file": Path(self._path(split)) for split in SPLITS if self._path(split)}
        return super().raw_files(tmp_dir) | named

    def _path(self, split: str) -> str:
        path: str = getattr(self.options, f"{split}_file")
        return path

    def _check_given(self) -> None:
        missing = [_flag(split) for split in _NEEDED if not self._path(split)]
        if missing:
            named = [f"{_flag(split)}={self._path(split)}" for split in SPLITS if self._path(split)]
            raise UserError(
                f"{self.name or type(self).__name__}: {', '.join(missing)} not given; "
                f"{'found ' + ', '.join(named) if named else 'no file was named'}; it needs {self.requirements()}"
            )


def _flag(split: str) -> str:
    return f"--{split}_file"
