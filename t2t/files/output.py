"""Where output goes: a file that appears whole, and whose writer can be interrupted, or a stream.

While it grows, the output of `G` is `G.partial`; `G.partial.json` says how far that can be trusted and what made it. At
the end `G.partial` becomes `G`. Nothing is ever taken over that another input, model or setting would have written.
"""

import contextlib
import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Self

from t2t.errors import MachineError, UserError
from t2t.files.atomic import LockedError, fsync_dir, open_locked, os_errors_as_machine_errors
from t2t.files.remote.mirror import is_mirrored, publish
from t2t.files.source import STANDARD
from t2t.files.trust import read_sealed, write_sealed

_FORMAT = 1
"""Of the state file; another one is not read."""


def open_output(path: str, fingerprint: str | None) -> "PartialFile | StreamOutput":
    """Returns where to write, a context manager.

    Args:
        path: a file, `-` for standard output, or a device such as /dev/null.
        fingerprint: of everything that decides the output; None where it is not known, so that nothing is resumed.

    Raises:
        UserError: the path is a folder, or its folder does not exist.
        MachineError: no permission to write there.
    """
    check_output(path)
    if is_stream(path):
        return StreamOutput(path)
    return PartialFile(Path(os.path.realpath(path)), fingerprint)


def is_stream(path: str) -> bool:
    """Returns whether an output is standard output or a device, and no file."""
    return path == STANDARD or (os.path.exists(path) and not os.path.isfile(path))


def check_output(path: str) -> None:
    """Raises what `open_output` does, and makes nothing."""
    if path == STANDARD:
        return
    folder = os.path.dirname(os.path.realpath(path))
    if is_mirrored(path):
        with os_errors_as_machine_errors(f"cannot write {path}"):
            os.makedirs(folder, exist_ok=True)
    if os.path.isdir(path):
        raise UserError(f"cannot write {path}: it is a folder; give the name of a file")
    if not os.path.isdir(folder):
        raise UserError(f"cannot write {path}: there is no folder {folder}; make it or write elsewhere")
    is_device = os.path.exists(path) and not os.path.isfile(path)
    if not (os.access(path, os.W_OK) if is_device else os.access(folder, os.W_OK | os.X_OK)):
        raise MachineError(f"cannot write {path}: Permission denied; get write permission there or write elsewhere")


def _close(file: BinaryIO) -> None:
    """Closes a file that has been flushed; where that failed it has been said, and closing it would say it again."""
    with contextlib.suppress(OSError):
        file.close()


def state_path(path: Path) -> Path:
    """Returns the file that says how far `<path>.partial` can be trusted; a kill at the very end may leave it."""
    return path.with_name(path.name + ".partial.json")


class StreamOutput:
    """Standard output, or a device: written as it comes, never resumed."""

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
        except BrokenPipeError:
            raise  # its reader has enough
        except OSError as error:
            raise MachineError(f"cannot write {self._path}: {error.strerror}") from error

    def finish(self) -> None:
        """Does nothing: everything has been written."""


class PartialFile:
    """A file under the name `<path>.partial` until it is finished; leaves that behind to be resumed from.

    Args:
        path: what it becomes, links resolved.
        fingerprint: see `open_output`.
    """

    _file: BinaryIO
    """Open within the `with` block."""

    def __init__(self, path: Path, fingerprint: str | None):
        self._path, self._fingerprint = path, fingerprint
        self._partial = path.with_name(path.name + ".partial")
        self._state = state_path(path)
        self._digest = hashlib.sha256()
        self.lines = 0
        """Lines that are written already: those of an earlier attempt, when it is opened."""
        self.bytes = 0
        """Of these lines."""
        self.notes: dict[str, Any] = {}
        """What was last passed to `write`."""

    def __enter__(self) -> Self:
        with os_errors_as_machine_errors(f"cannot write {self._path}"):
            try:
                self._file = open_locked(self._partial)
            except LockedError:
                raise UserError(
                    f"{self._partial}: another process is writing it; wait for it or write elsewhere"
                ) from None
            self._take_over()
            self._file.truncate(self.bytes)
            self._file.seek(self.bytes)
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
        """Adds some lines and waits until they are on the disk.

        Args:
            content: whole lines.
            lines: how many input lines they answer.
            notes: plain JSON to be found again in `notes` when the job is resumed.

        Raises:
            MachineError: the disk is full, or the like; what was written before stays good.
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
                now = {
                    "format": _FORMAT,
                    "fingerprint": self._fingerprint,
                    "lines": self.lines,
                    "bytes": self.bytes,
                    "sha256": self._digest.hexdigest(),
                    "notes": self.notes,
                }
                write_sealed(self._state, now)

    def finish(self) -> None:
        """Gives the file its name.

        Raises:
            MachineError: it cannot be renamed.
        """
        with os_errors_as_machine_errors(f"cannot write {self._path}"):
            if is_mirrored(self._path):
                self._publish()
            else:
                os.replace(self._partial, self._path)
            fsync_dir(self._path.parent)
            self._state.unlink(missing_ok=True)

    @property
    def sha256(self) -> str:
        """Of the lines that are written already."""
        return self._digest.hexdigest()

    def _publish(self) -> None:
        """Writes it to the store that its folder mirrors; an interrupted attempt is resumed from the partial file."""
        self._path.unlink(missing_ok=True)
        shutil.copyfile(self._partial, self._path)
        publish(self._path)
        self._partial.unlink()

    def written(self) -> Iterator[bytes]:
        """Yields the lines that have been written, those of earlier attempts included."""
        with self._partial.open("rb") as file:
            yield from file

    def discard(self) -> None:
        """Removes what has been written, which then nothing resumes from."""
        with os_errors_as_machine_errors(f"cannot remove {self._partial}"):
            self._state.unlink(missing_ok=True)
            self._partial.unlink()

    def _take_over(self) -> None:
        """Takes over what an earlier attempt at the same job has written, if that is still what it wrote."""
        try:
            state = read_sealed(self._state)
            usable = state["format"] == _FORMAT and state["fingerprint"] == self._fingerprint is not None
            length = int(state["bytes"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return
        if not usable or os.fstat(self._file.fileno()).st_size < length:
            return
        content = hashlib.sha256()
        left = length
        while left and (chunk := self._file.read(min(left, 1 << 20))):
            content.update(chunk)
            left -= len(chunk)
        if content.hexdigest() == state["sha256"]:
            self._digest, self.bytes = content, length
            self.lines, self.notes = state["lines"], state["notes"]
