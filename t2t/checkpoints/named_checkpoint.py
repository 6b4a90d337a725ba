"""Reads a checkpoint from a folder named after its step, which another process may remove meanwhile."""

import contextlib
from collections.abc import Collection
from pathlib import Path

from t2t.checkpoints.checkpoint import Checkpoint, DamagedCheckpointError, fingerprint_of, read_checkpoint
from t2t.checkpoints.named_folders import REPLACED
from t2t.checkpoints.names import step_name, step_of
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.files.remote.mirror import is_mirrored


class RemovedError(DamagedCheckpointError):
    """A checkpoint that another process removed or replaced while it was read."""


def read_named(folder: Path, parts: Collection[str]) -> Checkpoint:
    """Reads a checkpoint, whose step must agree with the name of its folder.

    Raises:
        UserError: a newer version of t2t wrote it.
        DamagedCheckpointError: it is damaged or of another step.
        RemovedError: it was removed or replaced meanwhile.
    """
    before = _identity(folder)
    try:
        loaded = read_checkpoint(folder, parts)
    except DamagedCheckpointError as error:
        if before is None or _identity(folder) != before:
            raise RemovedError(str(error)) from error
        raise
    step = step_of(folder.name.removeprefix(REPLACED))
    if step not in (None, loaded.step):
        raise DamagedCheckpointError(
            f"checkpoint {folder} is damaged: it holds step {loaded.step}; give the folder its name back, "
            f"{step_name(loaded.step)}, or ask for another checkpoint"
        )
    return loaded


def _identity(folder: Path) -> str | tuple[int, int, int] | None:
    """Returns what changes when a checkpoint is replaced or loses a file; None if there is none."""
    reading = os_errors_as_machine_errors(f"cannot read checkpoint {folder}")
    with reading, contextlib.suppress(FileNotFoundError):
        if is_mirrored(folder):  # fetching its files changes the folder, but not the checkpoint in the store
            return fingerprint_of(folder)
        found = folder.stat()
        return found.st_dev, found.st_ino, found.st_mtime_ns
    return None
