"""The task that a pipeline runs for each element, and how errors of workers reach the command that started it."""

import contextlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from t2t.errors import MachineError, T2TError, UserError
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.files.trust import read_sealed, write_sealed

_KINDS = {"user": UserError, "machine": MachineError}


class PipelineTask(Protocol):
    """The work of a pipeline: elements numbered from 0; each writes a file to a folder that all workers share.

    It is pickled for the workers, so it holds only names, paths and numbers, from which `open` creates objects.
    """

    @property
    def count(self) -> int:
        """Number of elements."""

    @property
    def failures(self) -> "Failures":
        """Where the errors of its workers are kept."""

    def open(self) -> Any:
        """Returns what `run` needs; called once in each worker."""

    def run(self, opened: Any, element: int) -> Mapping[str, int]:
        """Does the work of an element, unless it is done; returns its counters, by name.

        Raises:
            UserError: another try would fail in the same way.
            MachineError: another try may succeed.
        """

    def is_done(self, element: int) -> bool:
        """Returns whether the work of an element is done, for a progress bar."""


class Failures:
    """Errors of workers, as files in a folder that the workers and the command share.

    A runner reports the error of a worker as text in its own format. So the messages for the user are stored here.

    Args:
        folder: used only for these files.
    """

    def __init__(self, folder: Path):
        self._folder = folder

    def clear(self) -> None:
        """Removes the errors of earlier pipelines."""
        with os_errors_as_machine_errors(f"cannot write {self._folder}"):
            shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, element: int, error: T2TError) -> None:
        """Stores the error of an element.

        Raises:
            MachineError: it cannot be written.
        """
        kind = "user" if isinstance(error, UserError) else "machine"
        path = self._path(element)
        with os_errors_as_machine_errors(f"cannot write {path}"):
            self._folder.mkdir(parents=True, exist_ok=True)
            write_sealed(path, {"kind": kind, "message": str(error)})

    def remove(self, element: int) -> None:
        """Removes the error of an element, if any, after a successful try."""
        with contextlib.suppress(OSError):
            self._path(element).unlink()

    def first(self) -> T2TError | None:
        """Returns the error of the first element that has one."""
        for path in sorted(self._folder.glob("*.json")):
            with contextlib.suppress(OSError, ValueError, KeyError):  # removed meanwhile, or damaged
                found = read_sealed(path)
                return _KINDS[found["kind"]](found["message"])
        return None

    def _path(self, element: int) -> Path:
        return self._folder / f"{element:09d}.json"
