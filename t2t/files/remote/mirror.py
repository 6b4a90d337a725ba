"""The mirror of object stores on this machine: `fetch` before a file is read, `publish` once it is written.

Paths outside the mirror are ignored, so that callers need not know where their files are. For each mirrored file, a
separate folder has a record of when file and object were last equal: the object's id, and the file's size and
modification time. So a file is fetched again if the object has changed; a file that was changed locally and not yet
published is kept, unless the object has changed too.

Only files that are removed from the store are removed from the mirror. Removing the cache folder while no command runs
is safe, except for files that were made there and not yet published.
"""

import contextlib
import fcntl
import json
import logging
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Self

from t2t.errors import T2TError
from t2t.files.atomic import LockedError, exclusive_lock, write_atomically
from t2t.files.paths import address_of, cache_folder, mirrors_folder
from t2t.files.remote.client import request

_BATCH = 64
"""Files that are handled at a time."""
_LARGE_BYTES = 64 << 20
"""Transfers of at least so many bytes are logged."""

log = logging.getLogger("t2t")


def is_mirrored(path: str | os.PathLike[str]) -> bool:
    """Returns whether a path is in the mirror of an object store."""
    return address_of(path) is not None


def fetch(*paths: str | os.PathLike[str]) -> None:
    """Updates files of the mirror from the store; removes those that are gone from the store.

    Raises:
        UserError: there is no such bucket, or a package is not installed.
        MachineError: the store refuses or does not respond.
        OSError: the mirror cannot be written.
    """
    for batch in _batches(paths):
        _fetch(batch)


def _fetch(paths: Sequence[Path]) -> None:
    with _records(paths) as records:
        found = request("info", [record.address for record in records])
        wanted = []
        for record, entry in zip(records, found, strict=True):
            if entry is None:
                record.forget()
            elif record.id != entry["id"] or not record.path.exists():
                wanted.append((record, entry["size"]))
        if not wanted:
            return
        _log_moving("reading", [record for record, _ in wanted], sum(size for _, size in wanted))
        came = request("get", [(record.address, str(record.path)) for record, _ in wanted])
        for (record, _), entry in zip(wanted, came, strict=True):
            if entry is not None:
                record.keep(entry["id"], _marks(record.path))


def fetch_folder(folder: Path) -> None:
    """Fetches all files below a folder."""
    fetch(*(folder / name for name in list_files(folder)))


def publish(*paths: str | os.PathLike[str]) -> None:
    """Writes files of the mirror to the store; skips those that the store has already.

    Raises:
        MachineError: another process has taken over the folder; or as `fetch`.
    """
    for batch in _batches(paths):
        _publish(batch)


def _publish(paths: Sequence[Path]) -> None:
    with _records(paths) as records:
        marks = [_marks(record.path) for record in records]
        there = request("info", [record.address for record in records])
        changed = [
            (record, mark)
            for record, mark, entry in zip(records, marks, there, strict=True)
            if record.marks != mark or entry is None or entry["id"] != record.id
        ]
        if not changed:
            return
        _log_moving("writing", [record for record, _ in changed], sum(mark[0] for _, mark in changed))
        entries = request("put", [(str(record.path), record.address) for record, _ in changed])
        for (record, mark), entry in zip(changed, entries, strict=True):
            record.keep(entry["id"], mark)


def publish_folder(folder: Path, marker: str) -> None:
    """Replaces a folder of the store by that of the mirror.

    The file `marker` shows that the folder is complete: it is removed first and written last.
    """
    if not is_mirrored(folder):
        return
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path != folder / marker]
    kept = {path.relative_to(folder).as_posix() for path in files}
    before = list_files(folder)
    if marker in before:
        _remove(folder / marker)
    publish(*files)
    _remove(*(folder / name for name in before if name not in kept and name != marker))
    publish(folder / marker)


def is_recorded(path: Path) -> bool:
    """Returns whether the store had a file of the mirror when the file was last fetched or published."""
    with _records([path]) as (record,):
        return bool(record.id)


def list_files(folder: Path) -> list[str]:
    """Lists the files of the store below a folder of the mirror, as relative names; none for other folders.

    Names with parts that would lead out of the folder are left out.
    """
    address = address_of(folder)
    found = sorted(request("find", address)) if address else []
    return [name for name in found if not {"", ".", ".."} & set(name.split("/"))]


def names_in(folder: Path) -> set[str]:
    """Lists the names in a folder or, if it is mirrored, in that of the store; none if it does not exist."""
    if is_mirrored(folder):
        return {name.partition("/")[0] for name in list_files(folder)}
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


def exists(path: Path) -> bool:
    """Returns whether a file exists; for a file of the mirror, whether the store has it."""
    address = address_of(path)
    return request("info", [address])[0] is not None if address else path.exists()


def withdraw(folder: Path, marker: str) -> None:
    """Removes the files of a folder from the store, the marker first."""
    if is_mirrored(folder):
        _remove(folder / marker)
        _remove_below(folder)


def remove_folder(folder: Path) -> None:
    """Removes a folder, which may be missing, from this machine and from the store that it mirrors."""
    _remove_below(folder)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)


def remove_file(path: Path) -> None:
    """Removes a file, which may be missing, from this machine and from the store that it mirrors."""
    _remove(path)
    path.unlink(missing_ok=True)


def drop_copy(path: Path) -> bool:
    """Removes a damaged file of the mirror, so that it is fetched again; returns False for any other file."""
    if not is_mirrored(path):
        return False
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    return True


def forget_folder(folder: Path) -> None:
    """Removes a folder of the mirror and its records from this machine."""
    if is_mirrored(folder):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(_record_path(folder).with_suffix(""), ignore_errors=True)


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Holds a lock file as `exclusive_lock` does; in a mirror also an object, see `t2t.files.remote.agent`.

    Raises:
        LockedError: another process holds it, here or elsewhere.
        OSError: as `exclusive_lock`; and as `fetch`.
    """
    with exclusive_lock(path):
        address = address_of(path)
        if address is None:
            yield
            return
        lock = _record_path(path).with_suffix(".lock")
        lock.parent.mkdir(parents=True, exist_ok=True)
        if owner := request("own", address, _cache_id(), os.getpid(), str(lock)):
            raise LockedError(owner)
        try:
            yield
        finally:
            with contextlib.suppress(T2TError):  # without renewals, others take over after a while
                request("release", address)


class _Record:
    """Record of a mirrored file and its object when they were last equal; locked while it is open."""

    def __init__(self, path: Path, address: str, file: BinaryIO):
        self.path, self.address, self._file = path, address, file
        with contextlib.suppress(ValueError):
            plain = json.loads(file.read())
            if isinstance(plain, dict):
                self.id, self.marks = plain.get("id", ""), plain.get("marks", [])
                return
        self.id, self.marks = "", []

    @classmethod
    def open(cls, path: Path, address: str) -> Self:
        """Opens the record; waits while another process has it open."""
        place = _record_path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        file = place.open("a+b")
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        return cls(path, address, file)

    def keep(self, identity: str, marks: list[int]) -> None:
        """Records the object's id and the file's marks."""
        self.id, self.marks = identity, marks
        self._write({"id": identity, "marks": marks})

    def forget(self) -> None:
        """Removes a file whose object is gone; keeps a file that was never published."""
        if self.id:
            self.path.unlink(missing_ok=True)
            self.id, self.marks = "", []
            self._write({})

    def _write(self, plain: dict[str, Any]) -> None:
        self._file.truncate(0)  # a record cut short by a crash counts as none
        self._file.write(json.dumps(plain).encode())
        self._file.flush()

    def close(self) -> None:
        self._file.close()


@contextlib.contextmanager
def _records(paths: Sequence[Path]) -> Iterator[list[_Record]]:
    """Yields the open records of mirrored paths, which must be sorted so that processes cannot deadlock."""
    with contextlib.ExitStack() as stack:
        records = [_Record.open(path, address_of(path) or "") for path in paths]
        for record in records:
            stack.callback(record.close)
        yield records


def _remove(*paths: Path) -> None:
    for batch in _batches(paths):
        with _records(batch) as records:
            request("remove", [record.address for record in records])
            for record in records:
                record.keep("", [])


def _remove_below(folder: Path) -> None:
    """Removes from the store all files below a folder of the mirror; none of other folders."""
    copies = [path for path in folder.rglob("*") if path.is_file()]  # the list may lag behind
    _remove(*copies, *(folder / name for name in list_files(folder)))


def _batches(paths: Iterable[str | os.PathLike[str]]) -> Iterator[list[Path]]:
    """Yields the paths that are in the mirror, sorted, in batches: each path of a batch has an open record."""
    mirrored = sorted({Path(path) for path in paths if is_mirrored(path)})
    for start in range(0, len(mirrored), _BATCH):
        yield mirrored[start : start + _BATCH]


def _record_path(path: Path) -> Path:
    relative = Path(os.path.abspath(path)).relative_to(mirrors_folder())
    return cache_folder() / "records" / relative.with_name(relative.name + ".json")


def _marks(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def _cache_id() -> str:
    """Returns the unique id of this machine's cache folder."""
    path = cache_folder() / "id"
    with contextlib.suppress(FileNotFoundError):
        return path.read_text()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, uuid.uuid4().hex.encode())
    return path.read_text()


def _log_moving(what: str, records: list[_Record], size: int) -> None:
    if size >= _LARGE_BYTES:
        more = f" and {len(records) - 1:,} more" if len(records) > 1 else ""
        log.info("%s %s%s, %s MB", what, records[0].address, more, f"{size / 1e6:,.0f}")
