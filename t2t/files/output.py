"""Output of line-by-line jobs: a file that appears only when it is complete and can be resumed, or a stream.

While a file `G` is written, it is called `G.partial`; an `OutputRecord` in `G.partial.json` says which lines are done,
and what made them. At the end `G.partial` is renamed to `G`. A partial file from another input, model or setting is
never resumed. Where a finished file is to be recognized later, as a part of a larger output is, its record is kept.
"""

import contextlib
import dataclasses
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Self

from t2t.errors import MachineError, UserError
from t2t.files.atomic import LockedError, fsync_dir, open_locked, os_errors_as_machine_errors, sha256_of
from t2t.files.lines import STANDARD
from t2t.files.remote.mirror import is_mirrored, publish
from t2t.files.trust import read_record, read_sealed, write_sealed

_FORMAT = 1
"""Format number of records; those of another format are ignored."""


@dataclasses.dataclass(frozen=True)
class OutputRecord:
    """Which lines of an output are done, and what made them."""

    format: int
    fingerprint: str
    """Of everything that determines the output."""
    lines: int
    """Number of input lines that the content covers."""
    bytes: int
    """Size of the content."""
    sha256: str
    """Of the content."""
    notes: dict[str, Any]
    """See `PartialFile.write`."""


def read_output_record(path: Path) -> OutputRecord | None:
    """Returns a record that `PartialFile` has written; None if there is none, or it is damaged or of another format.

    Raises:
        OSError: it cannot be read.
        UserError: it is a link that leads out of its folder.
    """
    try:
        content = read_sealed(path)
        if "counted" in content:  # of a part, as earlier versions wrote it
            notes = {name: content.pop(name) for name in ("source", "verb", "repaired")} | content.pop("counted")
            notes["lines"] = content.pop("before") + content["lines"]
            content |= {"bytes": content.pop("size"), "notes": notes}
        record = read_record(OutputRecord, content)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return record if record.format == _FORMAT else None


IsValid = Callable[[int, dict[str, Any]], bool]
"""`is_valid(lines, notes)` returns whether the output of an earlier attempt for so many lines is still right."""


def always(lines: int, notes: dict[str, Any]) -> bool:
    """Any output of an earlier attempt is right; see `IsValid`."""
    return True


def open_output(path: str, fingerprint: str | None, is_valid: IsValid = always) -> "PartialFile | StreamOutput":
    """Returns an output, to be used as a context manager.

    Args:
        path: a file, `-` for standard output, or a device such as /dev/null.
        fingerprint: of everything that determines the output; None if it is not known, so that nothing is resumed.
        is_valid: what else decides whether an attempt with this fingerprint is resumed; see `IsValid`.

    Raises:
        UserError: the path is a folder, or its folder does not exist.
        MachineError: no permission to write there.
    """
    check_output(path)
    if is_stream(path):
        return StreamOutput(path)
    return PartialFile(Path(os.path.realpath(path)), fingerprint, is_valid)


def is_stream(path: str) -> bool:
    """Returns whether an output is standard output or a device, not a file."""
    return path == STANDARD or (os.path.exists(path) and not os.path.isfile(path))


def check_output(path: str) -> None:
    """Raises the errors of `open_output` without opening a file."""
    if path == STANDARD:
        return
    folder = os.path.dirname(os.path.realpath(path))
    if is_mirrored(path):
        with os_errors_as_machine_errors(f"cannot write {path}"):
            os.makedirs(folder, exist_ok=True)
    if os.path.isdir(path):
        raise UserError(f"cannot write {path}: it is a folder", "give the name of a file")
    if not os.path.isdir(folder):
        raise UserError(f"cannot write {path}: there is no folder {folder}", "make it or write elsewhere")
    is_device = os.path.exists(path) and not os.path.isfile(path)
    if not (os.access(path, os.W_OK) if is_device else os.access(folder, os.W_OK | os.X_OK)):
        raise MachineError(f"cannot write {path}: Permission denied", "get write permission there or write elsewhere")


def _close(file: BinaryIO) -> None:
    """Closes a flushed file; ignores errors, as a failed flush has been reported already."""
    with contextlib.suppress(OSError):
        file.close()


class ReaderClosedError(BrokenPipeError):
    """The reader of an output has closed it."""


class StreamOutput:
    """Standard output, or a device: written at once, never resumed."""

    lines = 0
    notes: dict[str, Any] = {}
    _file: BinaryIO
    """Open within the `with` block."""

    def __init__(self, path: str):
        self._path = path

    def __enter__(self) -> Self:
        with os_errors_as_machine_errors(f"cannot write {self._path}"):
            self._file = sys.stdout.buffer if self._path == STANDARD else open(self._path, "wb")
        return self

    def __exit__(self, *error: object) -> None:
        if self._path != STANDARD:
            _close(self._file)

    def write(self, content: bytes, lines: int, notes: dict[str, Any]) -> None:
        """Writes some lines."""
        try:
            self._file.write(content)
            self._file.flush()
        except BrokenPipeError as error:
            raise ReaderClosedError from error
        except OSError as error:
            raise MachineError(f"cannot write {self._path}: {error.strerror}") from error

    def finish(self) -> None:
        """Does nothing: everything has been written already."""


class PartialFile:
    """A file with the name `<path>.partial` until it is finished; if interrupted, it can be resumed.

    Args:
        path: final name, links resolved.
        fingerprint: see `open_output`.
        is_valid: see `open_output`.
        record_path: where the record is kept when the file is finished; None to keep none.
    """

    _file: BinaryIO
    """Open within the `with` block."""

    def __init__(
        self,
        path: Path,
        fingerprint: str | None = None,
        is_valid: IsValid = always,
        record_path: Path | None = None,
    ):
        self.path, self.record_path = path, record_path
        self._fingerprint, self._is_valid = fingerprint, is_valid
        self._partial = path.with_name(path.name + ".partial")
        self._state = path.with_name(path.name + ".partial.json")
        self._digest = hashlib.sha256()
        self.lines = 0
        """Number of input lines that the written output covers, those of an earlier attempt included."""
        self.bytes = 0
        """Size of that output."""
        self.notes: dict[str, Any] = {}
        """The notes last passed to `write`."""

    def __enter__(self) -> Self:
        with os_errors_as_machine_errors(f"cannot write {self.path}"):
            try:
                self._file = open_locked(self._partial)
            except LockedError:
                raise UserError(
                    f"{self._partial}: another process is writing it", "wait for it or write elsewhere"
                ) from None
            try:
                self._take_over()
                self.forget()  # a file that is made again is not finished until then
                self._file.truncate(self.bytes)
                self._file.seek(self.bytes)
            except BaseException:
                _close(self._file)
                raise
        return self

    def __exit__(self, *error: object) -> None:
        if (
            not self.lines
            and self._partial.exists()
            and os.path.samestat(os.fstat(self._file.fileno()), self._partial.stat())
        ):  # nothing to resume from
            for leftover in (self._partial, self._state):
                with contextlib.suppress(OSError):
                    leftover.unlink()
        _close(self._file)

    def write(self, content: bytes, lines: int, notes: dict[str, Any]) -> None:
        """Appends some lines and waits until they are on the disk.

        Args:
            content: whole lines.
            lines: number of input lines that they are the output for.
            notes: plain JSON, restored to `notes` when the job is resumed.

        Raises:
            MachineError: the disk is full, or the like; earlier output stays valid.
        """
        with os_errors_as_machine_errors(f"cannot write {self._partial}"):
            self._file.write(content)
            self._file.flush()
            os.fsync(self._file.fileno())
            self._digest.update(content)
            self.bytes += len(content)
            self.lines += lines
            self.notes = notes
            if self._fingerprint is not None:
                self._write_record(self._state, self._fingerprint)

    def _write_record(self, path: Path, fingerprint: str) -> None:
        record = OutputRecord(_FORMAT, fingerprint, self.lines, self.bytes, self._digest.hexdigest(), self.notes)
        write_sealed(path, dataclasses.asdict(record))

    def finish(self, fingerprint: str | None = None) -> None:
        """Gives the file its final name; if its folder mirrors an object store, writes it there.

        Args:
            fingerprint: for the record that is kept, of a file that was made without one, since nothing resumes it.

        Raises:
            MachineError: it cannot be renamed or written, or its record cannot.
        """
        if self.record_path is not None and (made_by := self._fingerprint or fingerprint):
            with os_errors_as_machine_errors(f"cannot write {self.record_path}"):
                self._write_record(self.record_path, made_by)
        with os_errors_as_machine_errors(f"cannot write {self.path}"):
            if is_mirrored(self.path):
                self._publish()
            else:
                os.replace(self._partial, self.path)
            fsync_dir(self.path.parent)
            self._state.unlink(missing_ok=True)

    def finished(self) -> OutputRecord | None:
        """Returns the kept record; None without one, or if the file is missing or has another size."""
        with contextlib.suppress(OSError, UserError):
            record = None if self.record_path is None else read_output_record(self.record_path)
            return record if record and self.path.stat().st_size == record.bytes else None
        return None

    def is_intact(self, record: OutputRecord) -> bool:
        """Returns whether the content of the finished file matches the record; reads all of it."""
        return sha256_of(self.path) == record.sha256

    def made_before(self) -> OutputRecord | None:
        """Returns the kept record of a file that an earlier attempt has finished; removes leftovers of a kill."""
        record = self.finished()
        if record is None or record.fingerprint != self._fingerprint or not self.is_intact(record):
            return None
        self._state.unlink(missing_ok=True)
        return record if self._is_valid(record.lines, record.notes) else None

    def forget(self) -> None:
        """Removes the record of a finished file, which so counts as missing."""
        if self.record_path is not None:
            self.record_path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Removes the finished file, and its record last; missing ones are no error."""
        for path in (self.path, self._state):
            path.unlink(missing_ok=True)
        self.forget()

    def _publish(self) -> None:
        """Writes the file to the store that its folder mirrors; keeps the partial file until that has succeeded."""
        self.path.unlink(missing_ok=True)
        shutil.copyfile(self._partial, self.path)
        publish(self.path)
        self._partial.unlink()

    def written(self) -> Iterator[bytes]:
        """Yields the lines written so far, those of earlier attempts included."""
        with self._partial.open("rb") as file:
            yield from file

    def is_left(self) -> bool:
        """Returns whether the partial file or its state exists, even if no `with` block has been entered."""
        return self._partial.exists() or self._state.exists()

    def discard(self) -> None:
        """Removes the partial file and its state if they exist, so that nothing can be resumed."""
        with os_errors_as_machine_errors(f"cannot remove {self._partial}"):
            self._state.unlink(missing_ok=True)
            self._partial.unlink(missing_ok=True)

    def _take_over(self) -> None:
        """Resumes from the output of an earlier attempt at the same job, if that is unchanged."""
        record = read_output_record(self._state)
        if record is None or record.fingerprint != self._fingerprint:
            return
        if os.fstat(self._file.fileno()).st_size < record.bytes:
            return
        content = hashlib.sha256()
        left = record.bytes
        while left and (chunk := self._file.read(min(left, 1 << 20))):
            content.update(chunk)
            left -= len(chunk)
        if content.hexdigest() == record.sha256 and self._is_valid(record.lines, record.notes):
            self._digest, self.bytes = content, record.bytes
            self.lines, self.notes = record.lines, record.notes
