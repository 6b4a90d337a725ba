"""One's own corpus: pairs of text files named on the command line, no code needed.

One instance, of files with one sentence a line:
    inputs   Where is the station?          (line n of --train_source)
    targets  Wo ist der Bahnhof?            (line n of --train_target)

Source and licence are those of the user's files.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from t2t.errors import UserError
from t2t.files.lines import read_parallel
from t2t.problems.base import Sample, Source, file_option
from t2t.problems.text_problems import TextOptions
from t2t.problems.translation import Translation
from t2t.registry import register_problem
from t2t.specs.constants import DEV, INPUTS, SPLITS, TARGETS, TEST, TRAIN

_NEEDED = (TRAIN, DEV)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextFilesOptions(TextOptions):
    """Where the files are."""

    train_source: str = file_option()
    """File with the source side of the training pairs, one text a line, plain or .gz."""
    train_target: str = file_option()
    """File with the target side of the training pairs."""
    dev_source: str = file_option()
    """File with the source side of the pairs that training is evaluated on."""
    dev_target: str = file_option()
    """File with the target side of the pairs that training is evaluated on."""
    test_source: str = file_option()
    """File with the source side of the test pairs; optional."""
    test_target: str = file_option()
    """File with the target side of the test pairs; optional."""
    source_language: str = ""
    """Code of the source language, e.g. en; optional."""
    target_language: str = ""
    """Code of the target language, e.g. zh; optional. BLEU splits words as it asks for."""


@register_problem("text2text_files")
class Text2TextFiles(Translation):
    """Your own two text files, told by --train_source, --train_target, --dev_source, --dev_target.

    Raises:
        UserError: some of the files are given and others, without which they are of no use, are not.
    """

    options_class = TextFilesOptions

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.source_language = self.options.source_language
        self.target_language = self.options.target_language
        given = [split for split in SPLITS if any(self._paths(split))]
        if given:
            self._check_flags(given)
        self.splits = tuple(given) or _NEEDED

    def generate_samples(self, split: str, source: Source) -> Iterator[Sample]:
        """Yields the pairs of lines of a split, in the files' order."""
        self._check_flags(self.splits)
        self.check_split(split)
        self._check_files()
        for source_line, target_line in read_parallel(*self._paths(split), source.tally):
            yield {INPUTS: source_line, TARGETS: target_line}

    def requirements(self) -> str:
        """Returns which flags name which files."""
        flags = ", ".join(f"{flag}=FILE" for split in _NEEDED for flag in _flags(split))
        return f"{flags}, and if there is a test set {' and '.join(f'{flag}=FILE' for flag in _flags(TEST))}"

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the files by the names of their options."""
        named = {flag.removeprefix("--"): Path(path) for flag, path in self._files().items() if path}
        return super().raw_files(tmp_dir) | named

    def _paths(self, split: str) -> tuple[str, str]:
        source, target = (getattr(self.options, flag.removeprefix("--")) for flag in _flags(split))
        return source, target

    def _files(self) -> dict[str, str]:
        """Returns all paths by the flag that gives them."""
        return {flag: path for split in SPLITS for flag, path in zip(_flags(split), self._paths(split), strict=True)}

    def _check_flags(self, given: tuple[str, ...] | list[str]) -> None:
        files = self._files()
        wanted = [flag for split in SPLITS if split in given or split in _NEEDED for flag in _flags(split)]
        missing = [flag for flag in wanted if not files[flag]]
        if missing:
            named = [f"{flag}={path}" for flag, path in files.items() if path]
            raise UserError(
                f"{self.name or 'text2text_files'}: {', '.join(missing)} not given; "
                f"{'found ' + ', '.join(named) if named else 'no file was named'}; "
                f"it needs {self.requirements()}: text files with one text a line, plain or .gz"
            )

    def _check_files(self) -> None:
        missing = [f"{flag}={path}" for flag, path in self._files().items() if path and not Path(path).is_file()]
        if missing:
            raise UserError(f"{self.name}: there is no such file: {', '.join(missing)}; check the paths")


def _flags(split: str) -> tuple[str, str]:
    return f"--{split}_source", f"--{split}_target"
