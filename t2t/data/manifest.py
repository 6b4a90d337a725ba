"""The manifest: a description of generated data, and the comparison of its files with their checksums, each once.

A folder without a valid manifest is not data. Verified files are recorded in a side file of it, `.verified.json`, with
their size, inode number and times of modification and of status change. Writing to a file, copying or replacing it
changes at least one of these; the time of status change even if the modification time is set back. So a side file that
was copied along with a folder, or written for other checksums, has no effect. Changes without a write, on a failing
disk, are noticed only at the first opening: remove the side file to compare everything again.
"""

import contextlib
import dataclasses
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from t2t.errors import UserError, one_line
from t2t.files.atomic import os_errors_as_machine_errors, remedy_of, sha256_of, write_atomically
from t2t.files.trust import PlainName, file_marks, is_settled, read_record, read_sealed, sealed, write_sealed
from t2t.specs.features import ProblemSpec
from t2t.text.encoder import TextEncoder
from t2t.text.vocabulary_files import VocabularyFile, read_encoders

MANIFEST_NAME = "manifest.json"

FORMAT = 1
"""Version of the file layout; newer ones are refused."""

REMEDY = "delete that folder and run t2t-datagen again"
"""What to do about damaged data, for messages."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileRecord:
    """One file of a part of a split."""

    name: PlainName
    bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> "FileRecord":
        """Returns the record of a file that is written."""
        return cls(name=path.name, bytes=path.stat().st_size, sha256=sha256_of(path))


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitPart:
    """Consecutive examples of a split: for each feature a file of values and a file of offsets into it."""

    examples: int
    values: dict[str, FileRecord]
    offsets: dict[str, FileRecord]

    def files(self) -> list[FileRecord]:
        """Returns all files of the part."""
        return [*self.values.values(), *self.offsets.values()]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnTotals:
    """One feature of a split."""

    items: int
    """Number of ids (or audio samples, vectors, frames, images) in all examples."""
    longest: int
    """Items in the longest example."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitRecord:
    """One split."""

    examples: int
    columns: dict[str, ColumnTotals]
    shards: list[SplitPart]
    """Its parts; files of all versions have them under this name."""
    dropped: dict[str, int]
    """Examples left out, by reason."""
    mended: dict[str, int]
    """Repairs to the raw data, by kind of fault; files of all versions have it under this name."""
    texts: dict[str, FileRecord] = dataclasses.field(default_factory=dict)
    """For dev and test splits, the raw text of features whose ids do not decode to exactly that text."""
    unknown: dict[str, int] = dataclasses.field(default_factory=dict)
    """Number of ids for unknown words, by feature; features without any, and data of the first versions, have no
    entry."""
    normalized: dict[str, int] = dataclasses.field(default_factory=dict)
    """Number of texts whose characters the vocabulary replaces, by feature; features without any have no entry."""
    repeated: int = 0
    """Extra copies of examples, written because of their weights."""

    def files(self) -> list[FileRecord]:
        """Returns all files of the split."""
        return [file for part in self.shards for file in part.files()] + list(self.texts.values())


@dataclasses.dataclass(frozen=True, kw_only=True)
class RawFile:
    """A raw file at the time when data was made from it."""

    path: str
    bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distillation:
    """How the training targets of distilled data were made: a teacher decoded the inputs of other data."""

    teacher: dict[str, Any]
    """The run's `model` and `hparams_set`, the `checkpoint`, its `step` and its `fingerprint`."""
    data: str
    """Fingerprint of the data whose training split was decoded, see `t2t.runs.data.OpenData`."""
    n_best: int
    """If 1, targets are the teacher's best outputs; if more, the one of so many that is nearest to the reference."""
    search: dict[str, Any]
    """Engine and decode hparams."""
    references: dict[str, int] = dataclasses.field(default_factory=dict)
    """Number of training examples that kept their reference, by the fault of the teacher's best output."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    """The contents of a folder of generated data, and how it was made."""

    format: int = FORMAT
    problem: str
    settings: dict[str, Any]
    """Values that the problem declares and its user set; see `settings_of`."""
    declared: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Other values that the problem declares, see `declared_by`; empty in data of the first versions."""
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Only the values that the user set."""
    seed: int
    raw_files: dict[str, RawFile] = dataclasses.field(default_factory=dict)
    """Digests of the user's files that the data was made from, by the problem's names for them."""
    spec: ProblemSpec
    vocabularies: dict[str, VocabularyFile]
    splits: dict[str, SplitRecord]
    written_by: str
    """Version of t2t."""
    distilled: Distillation | None = None
    """How the targets of the training split were made; None if they are the problem's own."""

    def to_json(self) -> str:
        """Returns the text of the manifest without a seal; fingerprints of data are computed from it."""
        return _text(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Returns the manifest as plain JSON."""
        return {**dataclasses.asdict(self, dict_factory=_without_empty), "spec": self.spec.to_dict()}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "Manifest":
        """Builds a manifest from the result of `to_dict`.

        Raises:
            ValueError: `plain` is not a valid manifest.
        """
        manifest = read_record(cls, plain)
        for split in manifest.splits.values():
            columns = split.columns.keys()
            if not split.shards or any(not s.values.keys() == s.offsets.keys() == columns for s in split.shards):
                raise ValueError("its shards have other columns than the split")
        return manifest

    def split(self, name: str) -> SplitRecord:
        """Returns a split.

        Raises:
            UserError: the data has no such split.
        """
        if name not in self.splits:
            raise UserError(
                f"split {name!r}: the data of {self.problem} has {', '.join(self.splits)}", "ask for one of these"
            )
        return self.splits[name]


def _text(plain: dict[str, Any]) -> str:
    text = json.dumps(plain, indent=1, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "backslashreplace").decode()  # file names may not be valid Unicode; JSON has escapes


_OPTIONAL = ("raw_files", "declared", "distilled", "texts", "unknown", "normalized", "repeated")
"""Fields of the manifest and of its splits that are left out if they are empty."""


def _without_empty(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in fields if value or name not in _OPTIONAL}


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Writes the manifest, which makes the folder data.

    Raises:
        MachineError: the disk is full, or the folder is not writable.
    """
    with os_errors_as_machine_errors(f"cannot write {folder}"):
        write_atomically(folder / MANIFEST_NAME, _text(sealed(MANIFEST_NAME, manifest.to_dict())).encode())


def read_manifest(folder: Path) -> Manifest:
    """Reads the manifest of a folder of generated data.

    Raises:
        UserError: there is none, it is damaged, or a newer t2t wrote it.
    """
    path = Path(folder) / MANIFEST_NAME
    try:
        plain = read_sealed(path)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(
            f"no generated data in {folder}: {MANIFEST_NAME} is not there",
            "generate the data first with t2t-datagen or t2t-trainer --generate_data, or correct --data_dir",
        ) from None
    except OSError as error:
        cure = remedy_of(error, "correct --data_dir or its permissions")
        raise UserError(f"cannot read {path}: {error.strerror}", cure) from error
    except ValueError as error:
        raise UserError(f"{path} is damaged ({one_line(error)})", f"{REMEDY}") from error
    found = plain.get("format")
    if isinstance(found, int) and found > FORMAT:
        raise UserError(
            f"{path} has format {found}",
            f"this t2t reads up to {FORMAT}: use the t2t that wrote it ({plain.get('written_by', 'unknown version')} "
            "or newer), or generate into another --data_dir",
        )
    try:
        return Manifest.from_dict(plain)
    except ValueError as error:
        raise UserError(f"{path} is damaged ({one_line(error)})", f"{REMEDY}") from error


def load_encoders(folder: Path, manifest: Manifest) -> dict[str, TextEncoder]:
    """Returns the vocabulary of each text feature; features that share one share the object.

    Raises:
        UserError: a file is missing, or is not the vocabulary that the data was made with.
    """
    return read_encoders(folder, manifest.vocabularies, REMEDY)


SIDE_FILE = ".verified.json"


def verify_files(folder: Path, records: Iterable[FileRecord]) -> None:
    """Compares files with their checksums, about a gigabyte per second; skips files that were verified before.

    If the folder cannot be written, nothing is recorded.

    Raises:
        UserError: a file is missing or has changed.
    """
    for name in find_changed(folder, records):
        path = Path(folder) / name
        raise UserError(f"{path} is corrupt: its sha256 is not the one in the manifest", f"{REMEDY}")


def find_changed(folder: Path, records: Iterable[FileRecord]) -> Iterator[str]:
    """Yields the names of files that have changed or are missing; see `verify_files`."""
    folder = Path(folder)
    known = _read(folder)
    found = dict(known)
    for record in records:
        path = folder / record.name
        try:
            before = file_marks(path)
            if known.get(record.name) == [record.sha256, *before]:
                continue
            is_same = sha256_of(path) == record.sha256
        except FileNotFoundError:
            is_same = False
        if not is_same:
            found.pop(record.name, None)
            yield record.name
            continue
        found.pop(record.name, None)
        if file_marks(path) == before and is_settled(before):
            found[record.name] = [record.sha256, *before]
    if found != known:
        with contextlib.suppress(OSError):  # read-only data, or a full disk: everything is compared again next time
            write_sealed(folder / SIDE_FILE, found)


def _read(folder: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError, UserError):
        return read_sealed(folder / SIDE_FILE)
    return {}
