"""Atomic writing of files and folders: they appear complete or not at all, whatever interrupts the writer. Also locks.

The steps are always the same: write under a temporary name next to the target, fsync the content, rename, fsync the
folder. A rename within one folder is atomic on POSIX file systems; the fsyncs keep it so across a power failure. Each
writer of a file uses its own temporary name, so that if several write at once, one wins and none fails.
"""

import contextlib
import errno
import fcntl
import hashlib
import itertools
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from t2t.errors import MachineError, one_line
from t2t.files.paths import check_outside_zoo

TEMPORARY = ".tmp-"
"""Prefix of the names of unfinished files and folders, which are never read."""

_LIMITS = {
    errno.EMFILE: "raise the limit on open files (ulimit -n) and run the same command again",
    errno.ENFILE: "raise the system's limit on open files (sysctl fs.file-max) and run the same command again",
    errno.ENOMEM: "free some memory, or raise the limit on it or on maps (ulimit -v, sysctl vm.max_map_count)",
}
"""Remedies for limits that no file is to blame for, by errno."""

REMEDIES = _LIMITS | {
    errno.ENOSPC: "free some space there and run the same command again",
    errno.EDQUOT: "free some of your quota and run the same command again",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f) or choose another folder",
    errno.EACCES: "get permission there or choose another folder",
    errno.EPERM: "get permission there or choose another folder",
    errno.EROFS: "choose a folder on a file system that can be written",
    errno.ENOTDIR: "a part of that path is a file; choose another folder",
    errno.EEXIST: "a file is where a folder is to be; move it away or choose another folder",
    errno.EISDIR: "a folder is where a file is to be; move it away or choose another folder",
    errno.EPIPE: "a process that reads what this one writes has ended; see why, and run the same command again",
    errno.EIO: "the disk or its connection fails; copy what can be read to another one",
}
"""Remedies for operating system errors, by errno."""

_held: set[BinaryIO] = set()
"""Lock files that this process holds."""


class LockedError(Exception):
    """Another process holds a lock; the message is its pid and machine."""


def write_atomically(path: Path, content: bytes) -> None:
    """Creates or replaces a file; after a crash it has either its old or its new content, complete.

    If several processes write it at once, it has the complete content of one of them.

    Raises:
        OSError: the file could not be written; the old one is untouched.
    """
    path = Path(path)
    with _open_temporary(path) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(file.name)
            raise
    fsync_dir(path.parent)


def _open_temporary(path: Path) -> BinaryIO:
    """Opens a new file next to the one to write, under the first temporary name that no other writer uses.

    A writer locks its temporary file; one that is not locked is left by a writer that has died, and is removed.
    """
    for number in itertools.count(1):
        temporary = path.with_name(TEMPORARY + path.name + (f".{number}" if number > 1 else ""))
        _remove_abandoned(temporary)
        with contextlib.suppress(FileExistsError):
            file = temporary.open("xb")  # does not follow an existing link
            try:
                if _lock(file, temporary):
                    return file
            except OSError:
                return file  # without locks on this file system, no process takes it for abandoned
            file.close()
    raise AssertionError("numbers do not end")


def _remove_abandoned(temporary: Path) -> None:
    """Removes an unfinished file whose writer has died."""
    with contextlib.suppress(OSError):  # there is none; or a link, a folder, another user's, all of which stay
        descriptor = os.open(temporary, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            if _lock(file, temporary):
                temporary.unlink()


def _lock(file: BinaryIO, path: Path) -> bool:
    """Locks an open file; returns False if another process has locked it, or it has been renamed or removed meanwhile.

    Raises:
        OSError: its file system has no locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file.fileno()), os.lstat(path))
    except (BlockingIOError, FileNotFoundError):
        return False


@contextlib.contextmanager
def made_folder(path: Path) -> Iterator[None]:
    """Makes a folder and its parents; those made here that are empty after the `with` block are removed again.

    Raises:
        OSError: a folder cannot be made.
        UserError: it is in a zoo.
    """
    path = Path(path)
    check_outside_zoo(path)
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # a folder that is not empty stays, and so do its parents
            for folder in made:
                folder.rmdir()


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yields an empty folder with a temporary name, which is renamed to `path` at the end of the `with` block.

    If the block fails, the folder is removed.

    Raises:
        LockedError: another process is making the same folder.
        OSError: the folder cannot be written.
    """
    path = Path(path)
    temporary = path.with_name(TEMPORARY + path.name)
    with made_folder(path.parent), exclusive_lock(lock_beside(path)):
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        try:
            yield temporary
            for inner in sorted(temporary.rglob("*")):
                (fsync_dir if inner.is_dir() else fsync_file)(inner)
            fsync_dir(temporary)
            os.rename(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        fsync_dir(path.parent)


def lock_beside(folder: Path) -> Path:
    """Returns the lock file, next to a folder, for processes that make that folder."""
    return folder.with_name(f".{folder.name}.lock")


def append_line(path: Path, line: str) -> None:
    """Appends one line to a file; removes an incomplete last line, left by a crash, first.

    Raises:
        OSError: the line could not be written.
    """
    with Path(path).open("a+b", buffering=0) as file:
        cut_torn_line(file)
        content = line.encode() + b"\n"
        if file.write(content) != len(content):  # happens only where the disk is full
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def cut_torn_line(file: BinaryIO) -> None:
    """Removes an incomplete last line, left by a crash or a full disk, from a file open for reading and writing."""
    end = start = file.seek(0, os.SEEK_END)
    keep = 0
    while start and not keep:
        stop, start = start, max(0, start - 4096)
        file.seek(start)
        newline = file.read(stop - start).rfind(b"\n")
        keep = start + newline + 1 if newline >= 0 else 0
    if keep != end:
        file.truncate(keep)


def fsync_file(path: Path) -> None:
    """Waits until the content of a file is on the disk."""
    with Path(path).open("rb") as file:
        os.fsync(file.fileno())


def fsync_dir(folder: Path) -> None:
    """Waits until the names in a folder are on the disk, if its file system supports that."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def sha256_of(path: Path) -> str:
    """Returns the hexadecimal sha256 of a file's content."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def os_errors_as_machine_errors(what: str) -> Iterator[None]:
    """Turns operating system errors into a message for the user.

    Args:
        what: what failed, e.g. `cannot save checkpoint step-00001500`.

    Raises:
        MachineError: in place of any OSError.
    """
    try:
        yield
    except OSError as error:
        raise MachineError(f"{what}: {describe_os_error(error)}") from error


def remedy_of(error: OSError, otherwise: str) -> str:
    """Returns what to do about a file that cannot be read: `otherwise`, unless a limit of the system is the cause."""
    return _LIMITS.get(error.errno or 0, otherwise)


def describe_os_error(error: OSError) -> str:
    """Returns what is wrong, where, and what to do."""
    where = f" ({error.filename})" if error.filename else ""
    remedy = REMEDIES.get(error.errno or 0, "fix that and run the same command again")
    return f"{one_line(error.strerror or error)}{where}; {remedy}"


@contextlib.contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Holds a lock file during a `with` block; the system releases the lock when the process ends, even if killed.

    The file contains the pid and machine of the holder, and is removed at the end; a file left by a killed process
    locks nothing. Processes forked meanwhile do not hold the lock, so that it is free if their parent is killed.

    Raises:
        LockedError: another process holds it.
        OSError: the file cannot be opened, or its file system has no locks.
    """
    try:
        file = open_locked(path)
    except LockedError:
        holder = b""
        with contextlib.suppress(OSError):  # it may have gone by now
            holder = Path(path).read_bytes()[:200]
        raise LockedError(holder.decode(errors="replace").strip() or "of unknown number") from None
    with file:
        file.truncate(0)
        file.write(f"{os.getpid()} on {socket.gethostname()}\n".encode())
        file.flush()
        _held.add(file)
        try:
            yield
        finally:
            if file in _held:  # not in a forked process
                _held.discard(file)
                with contextlib.suppress(OSError):  # a file that stays locks nothing
                    os.unlink(path)


def open_locked(path: Path) -> BinaryIO:
    """Opens a file for reading and writing, creates it if need be, and locks it until it is closed.

    Raises:
        LockedError: another process has it open.
        OSError: it cannot be opened, is a link, or its file system has no locks.
    """
    while True:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "r+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise LockedError(f"another process has {path} open") from None
        except OSError:
            file.close()
            raise
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                return file
        file.close()  # another process has renamed or removed it between our opening and our locking it


def is_locked(path: Path) -> bool:
    """Returns whether another process holds a lock file; creates no file."""
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # there is none, it may not be read, or the file system has no locks
        return False
    return False


def _close_inherited_locks() -> None:
    for file in _held:
        file.close()
    _held.clear()


os.register_at_fork(after_in_child=_close_inherited_locks)
