"""A small file that points to a checkpoint, replaced atomically. Unlike a symbolic link, it can be copied anywhere."""

from pathlib import Path
from typing import Any

from t2t.checkpoints.checkpoint import DamagedCheckpointError
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.files.remote.mirror import fetch, publish
from t2t.files.trust import read_sealed, write_sealed

LATEST_FILE = "latest.json"
"""Pointer to the latest checkpoint, in the folder of checkpoints."""


class Pointer:
    """One pointer file; `types` maps the names of the values that it holds to their types."""

    def __init__(self, path: Path, types: dict[str, type]):
        self.path = path
        self._types = types

    def write(self, **values: Any) -> None:
        """Replaces the values; raises OSError, and then keeps the old ones."""
        write_sealed(self.path, values)
        publish(self.path)

    def publish(self) -> None:
        """Uploads values that an interrupted `write` left on this machine only, unless others replaced them since.

        Raises:
            MachineError: the store refuses or does not respond.
            OSError: the mirror cannot be written.
        """
        fetch(self.path)
        if self.path.is_file():
            publish(self.path)

    def read(self) -> dict[str, Any] | None:
        """Returns the values; None if they were never written.

        Raises:
            DamagedCheckpointError: the file holds anything else.
        """
        with os_errors_as_machine_errors(f"cannot read {self.path}"):
            fetch(self.path)
            try:
                values = read_sealed(self.path)
            except FileNotFoundError:
                return None
            except ValueError:
                values = {}
        if {name: type(value) for name, value in values.items()} != self._types:
            raise DamagedCheckpointError(f"{self.path} is damaged; remove it and name a checkpoint by its step")
        return values
