"""The raw text of a split, stored next to its ids if these do not decode to exactly that text.

Outputs are scored against the original text. References decoded from ids lack unknown words and, with some
vocabularies, white space; scores against them would reward outputs with the same losses.

There is one file per feature, `<split>.<feature>.texts.jsonl`: line n is the text of example n as a JSON string, so
that a text with line breaks stays on its line.
"""

import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TextIO

from t2t.data.manifest import FileRecord
from t2t.files.atomic import os_errors_as_machine_errors, sha256_of


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
                    file=_described(self._path(name)), lines=self._lines[name], altered=name in self._altered
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


def read_texts(path: Path, limit: int | None = None) -> list[str]:
    """Returns the first `limit` texts of a file that `TextsWriter` wrote, or all."""
    with Path(path).open(encoding="utf-8", newline="\n") as file:
        return [json.loads(line) for line in islice(file, limit)]


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
        return _described(path)


def _described(path: Path) -> FileRecord:
    return FileRecord(name=path.name, bytes=path.stat().st_size, sha256=sha256_of(path))
