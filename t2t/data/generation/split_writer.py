"""Writes the files of a split: for each feature a .npy file of concatenated values and one of offsets into it.

`.npy` because numpy can memory-map it: scattered examples are read with one gather per feature.

The raw text is stored beside the ids if these do not decode to exactly it. Outputs are scored against the original
text: references decoded from ids lack unknown words and, with some vocabularies, white space, and scores against them
would reward outputs with the same losses. Line n of `<split>.<feature>.texts.jsonl` is the text of example n as a JSON
string, so that a text with line breaks stays on its line.
"""

import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np

from t2t.data.columns import FeatureColumn, stored_dtype
from t2t.data.manifest import ColumnTotals, FileRecord, SplitPart
from t2t.data.npy_files import NpyFile
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.specs.features import FeatureSpec

MOST_EXAMPLES = 1_000_000
"""Examples in one part."""

MOST_BYTES = 256 << 20
"""Bytes of values in one part, all features together."""


class SplitWriter:
    """Writes one split, part after part, in bounded memory."""

    def __init__(
        self,
        folder: Path,
        split: str,
        features: dict[str, FeatureSpec],
        most_examples: int = MOST_EXAMPLES,
        most_bytes: int = MOST_BYTES,
    ):
        self._folder, self._split, self._features = Path(folder), split, features
        self._most_examples, self._most_bytes = most_examples, most_bytes
        self._parts: list[SplitPart] = []
        self._open: _OpenPart | None = None
        self._items = dict.fromkeys(features, 0)
        self._longest = dict.fromkeys(features, 0)
        self.examples = 0

    def write(self, columns: dict[str, FeatureColumn]) -> None:
        """Appends examples; those of one call go to the same part, unless they are more than one part can hold.

        Raises:
            MachineError: the disk is full, or the folder is not writable.
        """
        rows = len(next(iter(columns.values())).lengths)
        for start in range(0, rows, self._most_examples):
            self._write_rows(columns if rows <= self._most_examples else _rows(columns, start, self._most_examples))

    def _write_rows(self, columns: dict[str, FeatureColumn]) -> None:
        rows = len(next(iter(columns.values())).lengths)
        size = sum(column.values.nbytes for column in columns.values())
        part = self._open
        if part and (part.examples + rows > self._most_examples or part.bytes + size > self._most_bytes):
            self._close_part(part)
        with os_errors_as_machine_errors(f"cannot write {self._folder}"):
            if self._open is None:
                self._open = _OpenPart(self._folder, f"{self._split}-{len(self._parts):05d}", self._features)
            self._open.write(columns)
        for name, column in columns.items():
            self._items[name] += len(column.values)
            self._longest[name] = max(self._longest[name], int(column.lengths.max(initial=0)))
        self.examples += rows

    def finish(self) -> tuple[dict[str, ColumnTotals], list[SplitPart]]:
        """Closes the last part and gives every file its final name, `<split>-00000-of-00004.<feature>.values.npy`.

        Returns:
            Totals by feature, and the parts in order.

        Raises:
            MachineError: the disk is full, or the folder is not writable.
        """
        if self._open is not None:
            self._close_part(self._open)
        totals = {name: ColumnTotals(items=self._items[name], longest=self._longest[name]) for name in self._features}
        return totals, [self._rename(number, part) for number, part in enumerate(self._parts)]

    def close(self) -> None:
        """Closes the open files without finishing them."""
        if self._open is not None:
            self._open.abandon()
            self._open = None

    def _close_part(self, part: "_OpenPart") -> None:
        with os_errors_as_machine_errors(f"cannot write {self._folder}"):
            self._parts.append(part.close())
        self._open = None

    def _rename(self, number: int, part: SplitPart) -> SplitPart:
        before = f"{self._split}-{number:05d}"
        after = f"{before}-of-{len(self._parts):05d}"

        def rename_record(record: FileRecord) -> FileRecord:
            name = after + record.name.removeprefix(before)
            with os_errors_as_machine_errors(f"cannot write {self._folder / name}"):
                os.replace(self._folder / record.name, self._folder / name)
            return dataclasses.replace(record, name=name)

        return SplitPart(
            examples=part.examples,
            values={name: rename_record(record) for name, record in part.values.items()},
            offsets={name: rename_record(record) for name, record in part.offsets.items()},
        )


class _OpenPart:
    """The files of the part that is being written."""

    def __init__(self, folder: Path, stem: str, features: dict[str, FeatureSpec]):
        self.examples = self.bytes = 0
        self._values: dict[str, NpyFile] = {}
        self._offsets: dict[str, NpyFile] = {}
        self._ends = dict.fromkeys(features, 0)
        for name, spec in features.items():
            self._values[name] = NpyFile(folder / f"{stem}.{name}.values.npy", stored_dtype(spec), spec.shape)
            self._offsets[name] = NpyFile(folder / f"{stem}.{name}.offsets.npy", np.dtype("<i8"), ())
            self._offsets[name].append(np.zeros(1, np.int64))

    def write(self, columns: dict[str, FeatureColumn]) -> None:
        for name, column in columns.items():
            self._values[name].append(column.values)
            self._offsets[name].append(self._ends[name] + np.cumsum(column.lengths))
            self._ends[name] += len(column.values)
            self.bytes += column.values.nbytes
        self.examples += len(column.lengths)

    def close(self) -> SplitPart:
        return SplitPart(
            examples=self.examples,
            values={name: file.close() for name, file in self._values.items()},
            offsets={name: file.close() for name, file in self._offsets.items()},
        )

    def abandon(self) -> None:
        for file in [*self._values.values(), *self._offsets.values()]:
            file.abandon()


def _rows(columns: dict[str, FeatureColumn], start: int, count: int) -> dict[str, FeatureColumn]:
    parts = {}
    for name, column in columns.items():
        ends = np.concatenate([[0], np.cumsum(column.lengths)])
        stop = min(start + count, len(column.lengths))
        parts[name] = FeatureColumn(column.values[ends[start] : ends[stop]], column.lengths[start:stop])
    return parts


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextsRecord:
    """The raw text of a feature of consecutive examples."""

    file: FileRecord
    lines: int
    """Number of texts; fewer than examples if some examples have none."""
    altered: bool
    """Whether some ids do not decode to their text, so that the texts have to be kept."""


class TextsWriter:
    """Writes the texts of consecutive examples of a split, chunk by chunk."""

    def __init__(self, folder: Path, split: str):
        self._folder, self._split = Path(folder), split
        self._files: dict[str, TextIO] = {}
        self._lines: dict[str, int] = {}
        self._altered: set[str] = set()

    def write(self, texts: Mapping[str, list[str]], altered: frozenset[str]) -> None:
        """Appends texts of consecutive examples, by feature; `altered` features have ids that decode differently.

        Raises:
            MachineError: the disk is full, or the folder is not writable.
        """
        self._altered |= altered
        with os_errors_as_machine_errors(f"cannot write {self._folder}"):
            for name, column in texts.items():
                if name not in self._files:
                    self._files[name] = self._path(name).open("w", encoding="utf-8", newline="\n")
                self._files[name].writelines(json.dumps(text, ensure_ascii=False) + "\n" for text in column)
                self._lines[name] = self._lines.get(name, 0) + len(column)

    def finish(self) -> dict[str, TextsRecord]:
        """Closes the files and returns their records, by feature.

        Raises:
            MachineError: the disk is full.
        """
        with os_errors_as_machine_errors(f"cannot write {self._folder}"):
            for file in self._files.values():
                file.flush()
                os.fsync(file.fileno())
                file.close()
            return {
                name: TextsRecord(
                    file=FileRecord.of(self._path(name)), lines=self._lines[name], altered=name in self._altered
                )
                for name in self._files
            }

    def close(self) -> None:
        """Closes the open files without finishing them."""
        for file in self._files.values():
            with contextlib.suppress(OSError):  # a failed flush does not matter: the file is discarded
                file.close()

    def _path(self, feature: str) -> Path:
        return self._folder / f"{self._split}.{feature}.texts.jsonl"


def join_texts(parts: Sequence[Path], path: Path) -> FileRecord:
    """Concatenates files of texts and returns the record of the result.

    Raises:
        MachineError: the disk is full.
    """
    with os_errors_as_machine_errors(f"cannot write {path}"):
        with path.open("wb") as joined:
            for part in parts:
                with part.open("rb") as file:
                    shutil.copyfileobj(file, joined)
            joined.flush()
            os.fsync(joined.fileno())
        return FileRecord.of(path)
