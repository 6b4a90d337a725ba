"""One checkpoint: a folder of arrays by name, a small state, and the checksums of both.

    model.safetensors       weights by variable path; float16, as in the package's zoo, is read as float32
    optimizer.safetensors   slots by name; absent if the checkpoint is for decoding only
    ema.safetensors         moving average of the weights, if the run keeps one
    state.json              format, step, and the trainer's state
    checksums.json          sha256 of every other file; its format never changes, so that damage is distinguished from a
                            newer format

Each file is read once and verified before it is used: another process may remove or replace the checkpoint meanwhile.
"""

import errno
import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from t2t.checkpoints.arrays import Arrays, parse_arrays, write_arrays
from t2t.errors import UserError, one_line
from t2t.files.atomic import fsync_dir, fsync_file, os_errors_as_machine_errors, sha256_of
from t2t.files.remote.mirror import drop_copy, exists, fetch
from t2t.files.trust import MOST_BYTES, check_inside, parse_sealed

FORMAT = 1
"""Format of the checkpoints that this version writes; it reads all formats up to it."""

MODEL, OPTIMIZER, EMA = "model", "optimizer", "ema"
PARTS = (MODEL, OPTIMIZER, EMA)
STATE_FILE, CHECKSUM_FILE = "state.json", "checksums.json"

VOCABULARIES, ARCHITECTURE, ADAPTERS = "vocabularies", "architecture", "adapters"
"""Entries of a checkpoint's state: the vocabularies and architecture of its weights, also of a mean of checkpoints, and
the base of its adapters, see `t2t.checkpoints.adapters`."""

_ADAPTER_TYPES = {"path": str, "fingerprint": str, "scale": float}


class DamagedCheckpointError(UserError):
    """A checkpoint whose files are missing or differ from what was written."""


@dataclass(frozen=True)
class Checkpoint:
    """The contents of one checkpoint; parts that were not requested, or do not exist, are None."""

    step: int
    """Updates done when it was taken."""
    model: Mapping[str, np.ndarray]
    """By variable path; empty if it was not requested."""
    optimizer: Mapping[str, np.ndarray] | None = None
    """By slot name."""
    ema: Mapping[str, np.ndarray] | None = None
    """By variable path; may leave out variables that are not trained."""
    state: dict[str, Any] = field(default_factory=dict)
    """JSON that the trainer passed: sampler state, seed, histories."""
    folder: Path | None = None
    """Where it was read from."""
    fingerprint: str = ""
    """sha256 of the checksums of all its files, whatever its path; set when it is read."""

    @property
    def name(self) -> str:
        """Name of the folder it was read from."""
        return self.folder.name if self.folder else ""

    @property
    def weights(self) -> Arrays:
        """The weights to decode with: the moving averages of variables that have one, the model's values of others."""
        return {**self.model, **(self.ema or {})}


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes a checkpoint to a new folder, and waits until it is on disk.

    Raises:
        OSError: the disk is full, or the like; the folder is then incomplete.
        TypeError: the state is not JSON.
    """
    state = _json_bytes({"format": FORMAT, "step": checkpoint.step, "state": checkpoint.state})
    folder.mkdir()
    for part in PARTS:
        arrays = getattr(checkpoint, part)
        if arrays is not None:
            write_arrays(folder / _file(part), arrays)
    (folder / STATE_FILE).write_bytes(state)
    checksums = {path.name: sha256_of(path) for path in sorted(folder.iterdir())}
    (folder / CHECKSUM_FILE).write_bytes(_json_bytes(checksums))
    for path in folder.iterdir():
        fsync_file(path)
    fsync_dir(folder)


def read_checkpoint(folder: Path, parts: Collection[str] = PARTS) -> Checkpoint:
    """Reads and verifies the state and some parts of a checkpoint; other files are not read.

    Raises:
        DamagedCheckpointError: a file is missing or not what was written.
        UserError: a newer version of t2t wrote it.
        MachineError: the files cannot be read.
    """
    with os_errors_as_machine_errors(f"cannot read checkpoint {folder}"):
        checksums, fingerprint = _read_checksums(folder)
        header = _read_header(folder, checksums)
        if unknown := checksums.keys() - {STATE_FILE, *map(_file, PARTS)}:
            raise _damaged(folder, f"{CHECKSUM_FILE} lists {min(unknown)!r}, which is not a file of a checkpoint")
        arrays: dict[str, Any] = {MODEL: {}} | {
            part: _read_arrays(folder, part, checksums) for part in PARTS if part in parts
        }
    return Checkpoint(step=header["step"], state=header["state"], folder=folder, fingerprint=fingerprint, **arrays)


def fingerprint_of(folder: Path) -> str:
    """Returns the sha256 of a checkpoint's checksums, which identifies its content.

    Raises:
        OSError: there is no checkpoint.
    """
    fetch(folder / CHECKSUM_FILE)
    return sha256_of(folder / CHECKSUM_FILE)


def is_checkpoint(folder: Path) -> bool:
    """Returns whether a folder looks like a checkpoint, without reading it."""
    return exists(folder / CHECKSUM_FILE)


def _file(part: str) -> str:
    return f"{part}.safetensors"


def _json_bytes(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _read_arrays(folder: Path, part: str, checksums: dict[str, str]) -> Arrays | None:
    if part != MODEL and _file(part) not in checksums:
        return None
    try:
        arrays = parse_arrays(_read_verified(folder, _file(part), checksums))
        return {
            name: array.astype(np.float32) if array.dtype == np.float16 else array for name, array in arrays.items()
        }
    except ValueError as error:
        raise _damaged(folder, f"{_file(part)} is not a safetensors file ({one_line(error)})") from error


def _read_header(folder: Path, checksums: dict[str, str]) -> dict[str, Any]:
    """Returns the content of the state file: step, and the trainer's state."""
    content = _read_verified(folder, STATE_FILE, checksums)
    try:
        header = json.loads(content)
        is_newer = header["format"] > FORMAT
        types = {} if is_newer else {name: type(header[name]) for name in ("step", "state")}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(folder, f"{STATE_FILE} is not a state ({type(error).__name__}: {one_line(error)})") from error
    if is_newer:
        raise UserError(
            f"checkpoint {folder}: it has format {header['format']}, this version of t2t reads formats up to {FORMAT}",
            "use the version of t2t that wrote it, or a later one",
        )
    if types != {"step": int, "state": dict} or not _is_state(header["state"]):
        raise _damaged(folder, f"{STATE_FILE} holds other kinds of entries than a state")
    return header


def _is_state(state: dict[str, Any]) -> bool:
    """Returns whether the entries for vocabularies, architecture and adapters have the expected types."""
    vocabularies, architecture = state.get(VOCABULARIES, {}), state.get(ARCHITECTURE, {})
    adapters = state.get(ADAPTERS, {})
    return (
        isinstance(adapters, dict)
        and {name: type(value) for name, value in adapters.items()} in ({}, _ADAPTER_TYPES)
        and isinstance(architecture, dict)
        and isinstance(vocabularies, dict)
        and all(
            isinstance(entry, list) and list(map(type, entry)) == [str, int, str] for entry in vocabularies.values()
        )
    )


def _read_checksums(folder: Path) -> tuple[dict[str, str], str]:
    """Returns file name -> sha256 and the fingerprint of the checkpoint."""
    if not folder.is_dir():
        raise _damaged(folder, "the folder is missing")
    content = _read(folder, CHECKSUM_FILE, MOST_BYTES + 1)
    try:
        checksums = parse_sealed(CHECKSUM_FILE, content)
    except ValueError:
        checksums = {}
    # the file is damaged unless it has exactly the bytes that would be written for these values
    if _json_bytes(checksums) != content:
        raise _damaged(folder, f"{CHECKSUM_FILE} is not what was written")
    return checksums, hashlib.sha256(content).hexdigest()


def _read_verified(folder: Path, file: str, checksums: dict[str, str]) -> bytes:
    if file not in checksums:
        raise _damaged(folder, f"{CHECKSUM_FILE} does not list {file}")
    content = _read(folder, file)
    found = hashlib.sha256(content).hexdigest()
    if found != checksums[file] and drop_copy(folder / file):
        content = _read(folder, file)
        found = hashlib.sha256(content).hexdigest()
    if found != checksums[file]:
        raise _damaged(
            folder,
            f"{file} is not what was written (sha256 {found[:12]}, {CHECKSUM_FILE} says {checksums[file]!s:.12})",
        )
    return content


def _read(folder: Path, file: str, most: int = -1) -> bytes:
    """Returns the content of a file, or its first `most` bytes."""
    check_inside(folder, folder / file)
    fetch(folder / file)
    try:
        with (folder / file).open("rb") as opened:
            return opened.read(most)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESTALE):  # the latter where another machine removed it
            raise _damaged(folder, f"{file} is missing") from None
        if error.errno == errno.EIO:
            raise _damaged(folder, f"{file} cannot be read from the disk (input/output error)") from error
        raise


def _damaged(folder: Path, wrong: str) -> DamagedCheckpointError:
    return DamagedCheckpointError(
        f"checkpoint {folder} is damaged: {wrong}", "restore it from a copy or ask for another checkpoint"
    )
