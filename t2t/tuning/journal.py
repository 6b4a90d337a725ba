"""The journal of a study: a file of lines, in Optuna's format, that several processes write in turn."""

import time
from pathlib import Path
from typing import Any, BinaryIO

from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

from t2t.files.atomic import LockedError, cut_torn_line, open_locked, os_errors_as_machine_errors


def open_journal(path: Path) -> JournalStorage:
    """Opens or makes a journal; raises OSError if it cannot be opened, or another error if it is damaged."""
    return JournalStorage(_Journal(str(path), JournalLock(path)))


class _Journal(JournalFileBackend):
    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Appends lines; raises MachineError if the file cannot be written."""
        with os_errors_as_machine_errors(f"cannot write {self._file_path}"):
            super().append_logs(logs)


class JournalLock(JournalFileOpenLock):
    """Locks a journal while a process writes to it.

    Unlike Optuna's own locks, this one ends with its process, even if that is killed; and an incomplete last line is
    removed first, as the next would be appended to it, and the journal could never be read again.
    """

    def __init__(self, path: Path):
        super().__init__(str(path))
        self._path = path
        self._file: BinaryIO | None = None

    def acquire(self) -> bool:
        """Waits for the lock; raises OSError if the journal cannot be written."""
        while self._file is None:
            try:
                self._file = open_locked(self._path.resolve())
            except LockedError:
                time.sleep(0.01)
        try:
            cut_torn_line(self._file)
        except OSError:
            self.release()
            raise
        return True

    def release(self) -> None:
        """Releases the lock, which this process holds."""
        if self._file is not None:
            self._file.close()
            self._file = None
