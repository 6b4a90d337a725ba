"""The raw text of a split beside its ids, where the ids do not say all of it.

Outputs are scored against what a person wrote. References read back from ids of a vocabulary that lacks a word, or that
keeps no white space, would count the vocabulary's own losses as right.

One file a feature, `<split>.<feature>.texts.jsonl`: line n is the text of example n as a JSON string, so that a text
with line ends in it keeps to its line.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TextIO

from t2t.data.manifest import FileRecord
from t2t.files.atomic import os_errors_as_machine_errors, sha256_of


class TextsWriter:
    """Writes the texts of a split as they come, and keeps those of the features that need it."""

    def __init__(self, folder: Path, split: str):
        self._folder, self._split = Path(folder), split
        self._files: dict[str, TextIO] = {}
        self._lines: dict[str, int] = {}
        self._altered: set[str] = set()

    def write(self, texts: Mapping[str, list[str]], altered: frozenset[str]) -> None:
        """Appends the texts of consecutive examples, by feature; `altered` are those whose ids read otherwise.

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

    def finish(self, examples: int) -> dict[str, FileRecord]:
        """Closes the files and removes those that say no more than the ids, or lack some of the split's examples.

        Raises:
            MachineError: the disk is full.
        """
        kept = {}
        with os_errors_as_machine_errors(f"cannot write {self._folder}"):
            for name, file in self._files.items():
                file.flush()
                os.fsync(file.fileno())
                file.close()
                path = self._path(name)
                if name in self._altered and self._lines[name] == examples:
                    kept[name] = FileRecord(name=path.name, bytes=path.stat().st_size, sha256=sha256_of(path))
                else:
                    path.unlink()
        return kept

    def close(self) -> None:
        """Closes what is open without finishing it."""
        for file in self._files.values():
            with contextlib.suppress(OSError):  # what could not be written is thrown away anyway
                file.close()

    def _path(self, feature: str) -> Path:
        return self._folder / f"{self._split}.{feature}.texts.jsonl"


def read_texts(path: Path, limit: int | None = None) -> list[str]:
    """Returns the first `limit` texts of a file that `TextsWriter` wrote, or all."""
    with Path(path).open(encoding="utf-8", newline="\n") as file:
        return [json.loads(line) for line in islice(file, limit)]
