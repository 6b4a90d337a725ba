"""A small file that points to a checkpoint, replaced whole; no symbolic link, so that it survives copying anywhere."""

from pathlib import Path
from typing import Any

from t2t.checkpoints.checkpoint import DamagedCheckpointError
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.files.remote.mirror import fetch, publish
from t2t.files.trust import read_sealed, write_sealed

LATEST_FILE = "latest.json"
"""In the folder of checkpoints, what points to the latest."""


class Pointer:
    """One pointer file; `types` maps the names of the values that it holds to their types."""

    def __init__(self, path: Path, types: dict[str, type]):
        self.path = path
        self._types = types

    def write(self, **values: Any) -> None:
        """Replaces its values, or raises OSError and keeps the old ones."""
        write_sealed(self.path, values)
        publish(self.path)

    def read(self) -> dict[str, Any] | None:
        """Returns its values; None where it was never written.

        Raises:
            DamagedCheckpointError: it holds something else.
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
