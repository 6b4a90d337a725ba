"""Writing so that a crash leaves nothing half-written, and only one process writes."""

import contextlib
import errno
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from t2t.errors import MachineError, UserError

_CURES = {
    errno.ENOSPC: "free some space or choose another --data_dir",
    errno.EDQUOT: "free some of your quota or choose another --data_dir",
    errno.EACCES: "get permission to write there or choose another --data_dir",
    errno.EPERM: "get permission to write there or choose another --data_dir",
    errno.EROFS: "choose another --data_dir",
}


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns what the operating system says about a failed write into one line.

    Raises:
        MachineError: an OSError came out of the `with` block.
    """
    try:
        yield
    except OSError as error:
        cure = _CURES.get(error.errno, "choose another --data_dir")
        raise MachineError(f"cannot write {path}: {error.strerror or error}; {cure}") from error


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a file under a temporary name, syncs it and renames it.

    Raises:
        MachineError: the disk is full, or the place is not writable.
    """
    part = path.with_name(path.name + ".part")
    with writing(path):
        try:
            with open(part, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder survive a power cut."""
    with writing(folder):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sha256_of(path: Path) -> str:
    """Returns the hexadecimal sha256 of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def only_process(lock: Path, busy: str) -> Iterator[None]:
    """Holds a lock file for the length of a `with` block; the lock of a process that died is free.

    Args:
        lock: the file, removed at the end.
        busy: the message where another process holds it.

    Raises:
        UserError: another process holds the lock.
        MachineError: the lock cannot be written.
    """
    while True:
        with writing(lock):
            handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise UserError(busy) from None
        except OSError as error:
            os.close(handle)
            raise MachineError(f"cannot lock {lock}: {error.strerror}; choose another --data_dir") from error
        if _is_the_file(handle, lock):
            break
        os.close(handle)  # its holder removed it between our opening and our locking it
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(handle)


def _is_the_file(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False
