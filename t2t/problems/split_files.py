"""Problems with files that the user names for each split: --train_file, --dev_file, --test_file, or pairs of such.

Each file is a shard; a large plain file has one for each block of lines.
"""

import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from t2t.errors import UserError
from t2t.files.line_blocks import LineBlock, cut_files
from t2t.files.paths import matched_files
from t2t.problems.base import Problem
from t2t.problems.options import ProblemOptions, file_option
from t2t.problems.samples import GenerationContext
from t2t.problems.text_problems import TextOptions
from t2t.specs import DEV, SPLITS, TEST, TRAIN

_NEEDED = (TRAIN, DEV)


log = logging.getLogger("t2t")

SHARD_BYTES = 64 << 20
"""Size of one shard of a plain text file, or of the larger side of a pair."""

RECORDINGS_PER_SHARD = 1000
"""Lines per shard of a file whose lines name recordings, as each is as large as many texts."""

Blocks = tuple[LineBlock, ...]
"""The same lines of each of some parallel files."""


Files = Callable[[], Sequence[Sequence[Path]]]
"""Returns the files of a split in order; each entry has the parallel files of one corpus."""


def count_blocks(files: Files, split: str, context: GenerationContext, most_lines: int | None = None) -> int:
    """Returns the number of shards of a split.

    Args:
        files: of the split; they are listed and cut only once in a generation.
        split: its name.
        context: caches where the files are cut, and may say how large shards are.
        most_lines: lines per shard, if they stand for something larger than text; None to cut by bytes.

    Raises:
        UserError: see `cut_files`.
    """
    return len(_every_block(files, split, context, most_lines))


def blocks_to_read(files: Files, split: str, context: GenerationContext, most_lines: int | None = None) -> list[Blocks]:
    """Returns the blocks of shard `context.shard`, or all files if there is only one shard; see `count_blocks`."""
    if context.shards == 1:
        return [tuple(LineBlock(path) for path in sides) for sides in files()]
    blocks = _every_block(files, split, context, most_lines)[context.shard]
    return [tuple(LineBlock(Path(path), *position) for path, *position in blocks)]


def _every_block(files: Files, split: str, context: GenerationContext, most_lines: int | None) -> list[list[list[Any]]]:
    """Returns the path, first line, start and stop of every block of every shard."""

    def cut() -> list[Any]:
        shard_bytes, listed = context.shard_bytes or SHARD_BYTES, files()
        for sides in listed:
            if len(listed) > 1 and len(sides) > 1:
                log.info("%s: %s", split, " goes with ".join(map(str, sides)))
        shards = [blocks for sides in listed for blocks in cut_files(sides, shard_bytes, most_lines)]
        return [[[str(block.path), block.first, block.start, block.stop] for block in blocks] for blocks in shards]

    found: list[list[list[Any]]] = context.cached(f"{split}-blocks", cut)
    return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class FilesOptions(ProblemOptions):
    """The files of each split."""

    train_file: str = file_option(many=True)
    """File of the training examples, one a line, plain or .gz."""
    dev_file: str = file_option(many=True)
    """File of the examples that training is evaluated on."""
    test_file: str = file_option(many=True)
    """File of the test examples; optional."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FilesAndTextOptions(FilesOptions, TextOptions):
    """The files of each split, and the vocabulary of their text."""


class Line(NamedTuple):
    """The position of a line in a file."""

    path: Path
    number: int
    """Counted from 1."""


class NamedFiles(Problem):
    """Problems whose options name the files. As a base class, list it before the one that defines the samples.

    An option may name several files, which are read one after the other, see `named_files`. Each file, or each block of
    a large plain file, is a shard.

    Raises:
        UserError: some of the files are given, but others that they need are not; or patterns of two sides match files
            that do not belong together.
    """

    file_sides: ClassVar[tuple[str, ...]] = ("file",)
    """Sides of a split, each with an option `--<split>_<side>`."""
    line_form: ClassVar[str] = ""
    """What a line must be, for messages."""
    options_class: ClassVar[type[ProblemOptions]] = FilesAndTextOptions
    _not_of_data: ClassVar[tuple[str, ...]] = ("line_form", "file_sides")
    _shard_lines: ClassVar[int | None] = None  # lines per shard, if they stand for something larger than text

    def __init__(self, **options: Any):
        super().__init__(**options)
        given = tuple(split for split in SPLITS if any(self.paths_of(split)))
        self.splits = given or _NEEDED
        if given:
            self._check_given()
        for split in given:
            self._check_matches({name: options.get(name, "") for name in self.parallel_options(split)})

    def paths_of(self, split: str) -> tuple[str, ...]:
        """Returns the options of a split in the order of `file_sides`, empty if one is not given."""
        return tuple(getattr(self.options, f"{split}_{side}") for side in self.file_sides)

    def parallel_options(self, split: str) -> list[str]:
        """Returns the names of the options whose files are read line by line together, those of the sides first."""
        return [f"{split}_{side}" for side in self.file_sides]

    def files_of(self, split: str) -> list[tuple[Path, ...]]:
        """Returns the files of a split in order, those that are read line by line together in one tuple.

        Raises:
            UserError: the options name different numbers of files.
        """
        sides = {name: self.options.paths(name) for name in self.parallel_options(split)}
        if len({len(files) for files in sides.values()}) > 1:
            counts = " and ".join(f"{len(files):,} with --{name}" for name, files in sides.items())
            raise UserError(
                f"{self.name}: {counts} are named; file n of one must go with file n of the other",
                "name as many of each",
            )
        return list(zip(*sides.values(), strict=True))

    def check_files(self, split: str) -> None:
        """Raises UserError if no files were named, the split has none, or some do not exist; lists all of these."""
        self._check_given()
        self.check_split(split)
        missing = [
            f"--{name.partition(' ')[0]}={path}" for name, path in self._named_files().items() if not path.is_file()
        ]
        if missing:
            raise UserError(f"{self.name}: there is no such file: {', '.join(missing)}", "check the paths")

    def shards(self, split: str, context: GenerationContext) -> int:
        """Returns the number of files of a split; a large plain file counts once for each of its blocks."""
        return count_blocks(lambda: self._checked_files(split), split, context, self._shard_lines)

    def blocks(self, split: str, context: GenerationContext) -> list[Blocks]:
        """Returns the blocks of a split, or of one shard of it, in order; the sides of a block are in one tuple.

        Raises:
            UserError: see `check_files`, `files_of` and `cut_files`.
        """
        return blocks_to_read(lambda: self._checked_files(split), split, context, self._shard_lines)

    def _checked_files(self, split: str) -> list[tuple[Path, ...]]:
        self.check_files(split)
        return self.files_of(split)

    def requirements(self) -> str:
        """Describes the flags that name the files, and the form of a line."""
        needed = ", ".join(f"{flag}=FILE" for flag in self._files(_NEEDED))
        tests = " and ".join(f"{flag}=FILE" for flag in self._files((TEST,)))
        form = f"; a line is {self.line_form}" if self.line_form else ""
        return f"{needed}, and if there is a test set {tests}{form}"

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the files by the names of their options, numbered if an option names several."""
        return super().raw_files(tmp_dir) | self._named_files()

    def raw_data_of(self, split: str) -> str:
        """Returns the flags that name the files of a split."""
        return " and ".join(f"{flag}={path}" for flag, path in self._files((split,)).items())

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

    def _check_matches(self, given: dict[str, Any]) -> None:
        """Raises UserError if two patterns match different things where their files are read together.

        It is called with the options as they are given, since `self.options` have files in place of patterns.
        """
        (first, firsts), *others = [(name, matched_files(value) if value else []) for name, value in given.items()]
        for name, files in others:
            for (path, match), (other, its_match) in zip(firsts, files, strict=False):  # `files_of` compares lengths
                if None not in (match, its_match) and match != its_match:
                    raise UserError(
                        f"{self.name or type(self).__name__}: --{first}={given[first]} and --{name}={given[name]}: "
                        f"{path.name} would go with {other.name}, where the wildcards match something else",
                        "give patterns whose wildcards match the same, or name the files one by one, with commas "
                        "between",
                    )

    def _check_given(self) -> None:
        wanted = self._files(split for split in SPLITS if split in (*self.splits, *_NEEDED))
        missing = [flag for flag, path in wanted.items() if not path]
        if missing:
            named = [f"{flag}={path}" for flag, path in self._files(SPLITS).items() if path]
            raise UserError(
                f"{self.name or type(self).__name__}: {', '.join(missing)} not given; "
                f"{'found ' + ', '.join(named) if named else 'no file was named'}",
                f"it needs {self.requirements()}",
            )

    def lines(self, split: str, context: GenerationContext) -> Iterator[tuple[Line, str]]:
        """Yields the position and the text of each line of a split, or of one shard of it; skips empty lines.

        Raises:
            UserError: no files were named, some do not exist, or a file cannot be read.
        """
        for (block,) in self.blocks(split, context):
            for number, line in enumerate(block.read(context.tally), block.first):
                if line.strip():
                    yield Line(block.path, number), line

    def columns_of(self, split: str, context: GenerationContext) -> Iterator[tuple[Line, str, str]]:
        """Yields the position of each line of a split and its two columns, split at the first TAB.

        Raises:
            UserError: a line has no TAB, or see `lines`.
        """
        for position, line in self.lines(split, context):
            left, tab, right = line.partition("\t")
            if not tab:
                raise self.line_error(position, f"has no TAB: {line[:40]!r}")
            yield position, left.strip(), right.strip()

    def line_error(self, position: Line, found: str) -> UserError:
        """Returns an error about one line."""
        return UserError(
            f"{position.path}, line {position.number:,}, {found}; a line is {self.line_form}", "correct the file"
        )
