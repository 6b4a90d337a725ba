"""One checkpoint: a folder of arrays by name, a small state, and the checksums of both.

    model.safetensors       weights by variable path
    optimizer.safetensors   slots by name; absent where the checkpoint is for decoding only
    ema.safetensors         moving average of the weights, where the run keeps one
    state.json              format, step, and what the trainer wants back
    checksums.json          sha256 of every other file; its own form never changes, so that damage is told from
                            a newer format

Nothing of a file is used before its checksum has been compared.
"""

import errno
import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  (teaches numpy bfloat16)
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from t2t.atomic import fsync_dir, fsync_file, os_errors_as_machine_errors, sha256_of
from t2t.errors import UserError, one_line
from t2t.trust import check_inside, read_sealed

FORMAT = 1
"""Format of the checkpoints that this version writes; it reads all formats up to it."""

MODEL, OPTIMIZER, EMA = "model", "optimizer", "ema"
PARTS = (MODEL, OPTIMIZER, EMA)
STATE_FILE, CHECKSUM_FILE = "state.json", "checksums.json"

VOCABULARIES, ARCHITECTURE = "vocabularies", "architecture"
"""Entries of a checkpoint's state, and of an average's: which vocabularies and which model its weights belong to."""

_OS_ERROR_NUMBER = re.compile(r"(?:os error |code: )(\d+)")

Arrays = dict[str, np.ndarray]


class DamagedCheckpointError(UserError):
    """A checkpoint whose files are not what was written."""


@dataclass(frozen=True)
class Checkpoint:
    """What one checkpoint holds; parts that were not asked for, or do not exist, are None."""

    step: int
    """Updates done when it was taken."""
    model: Arrays
    """By variable path; empty where it was not asked for."""
    optimizer: Arrays | None = None
    """By slot name."""
    ema: Arrays | None = None
    """By variable path; may leave out variables that are not trained."""
    state: dict[str, Any] = field(default_factory=dict)
    """JSON that the trainer passed: sampler state, seed, histories."""
    folder: Path | None = None
    """Where it was read from."""
    fingerprint: str = ""
    """sha256 of the checksums of all its files, wherever it lies; set when it is read."""

    @property
    def name(self) -> str:
        """Name of the folder it was read from."""
        return self.folder.name if self.folder else ""

    @property
    def weights(self) -> Arrays:
        """The weights to decode with: the moving average where there is one, the model's elsewhere."""
        return {**self.model, **(self.ema or {})}


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Fills a new folder and waits until it is on the disk.

    Raises:
        OSError: the disk is full, or the like; the folder is then unfinished.
        TypeError: the state is not JSON.
    """
    state = _json_bytes({"format": FORMAT, "step": checkpoint.step, "state": checkpoint.state})
    folder.mkdir()
    for part in PARTS:
        arrays = getattr(checkpoint, part)
        if arrays is not None:
            _write_arrays(folder / _file(part), arrays)
    (folder / STATE_FILE).write_bytes(state)
    checksums = {path.name: sha256_of(path) for path in sorted(folder.iterdir())}
    (folder / CHECKSUM_FILE).write_bytes(_json_bytes(checksums))
    for path in folder.iterdir():
        fsync_file(path)
    fsync_dir(folder)


def read_checkpoint(folder: Path, parts: Collection[str] = PARTS) -> Checkpoint:
    """Reads the state and some parts of a checkpoint, each verified first; other files are not touched.

    Raises:
        DamagedCheckpointError: a file is missing or not what was written.
        UserError: a newer version of t2t wrote it.
        MachineError: the files cannot be read.
    """
    with os_errors_as_machine_errors(f"cannot read checkpoint {folder}"):
        checksums = _read_checksums(folder)
        header = _read_header(folder, checksums)
        if unknown := checksums.keys() - {STATE_FILE, *map(_file, PARTS)}:
            raise _damaged(folder, f"{CHECKSUM_FILE} lists {min(unknown)!r}, which is no file of a checkpoint")
        arrays = {MODEL: {}} | {part: _read_arrays(folder, part, checksums) for part in PARTS if part in parts}
        fingerprint = fingerprint_of(folder)
    return Checkpoint(step=header["step"], state=header["state"], folder=folder, fingerprint=fingerprint, **arrays)


def fingerprint_of(folder: Path) -> str:
    """Returns what tells the content of a checkpoint from any other's, without reading more than its checksums.

    Raises:
        OSError: there is no checkpoint.
    """
    return sha256_of(folder / CHECKSUM_FILE)


def is_checkpoint(folder: Path) -> bool:
    """Tells whether a folder looks like a checkpoint, without reading it."""
    return (folder / CHECKSUM_FILE).is_file()


def _file(part: str) -> str:
    return f"{part}.safetensors"


def _json_bytes(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    # safetensors writes the buffer as it lies in memory, so that a transposed view would come back scrambled
    dense = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    try:
        save_file(dense, path)
    except SafetensorError as error:
        number = _OS_ERROR_NUMBER.search(str(error))
        if not number:
            raise
        code = int(number[1])
        raise OSError(code, os.strerror(code), str(path)) from error
    # it also makes its files readable by their owner only; they shall be as readable as the folder is
    path.chmod(path.parent.stat().st_mode & 0o666)


def _read_arrays(folder: Path, part: str, checksums: dict[str, str]) -> Arrays | None:
    if part != MODEL and _file(part) not in checksums:
        return None
    _verify(folder, _file(part), checksums)
    try:
        return load_file(folder / _file(part))
    except (SafetensorError, KeyError, ValueError) as error:  # the latter two for types that numpy does not have
        raise _damaged(folder, f"{_file(part)} is no safetensors file ({one_line(error)})") from error


def _read_header(folder: Path, checksums: dict[str, str]) -> dict[str, Any]:
    """Returns what the state file says: step, and the trainer's state."""
    _verify(folder, STATE_FILE, checksums)
    try:
        header = json.loads((folder / STATE_FILE).read_bytes())
        is_newer = header["format"] > FORMAT
        types = {} if is_newer else {name: type(header[name]) for name in ("step", "state")}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(folder, f"{STATE_FILE} is no state ({type(error).__name__}: {one_line(error)})") from error
    if is_newer:
        raise UserError(
            f"checkpoint {folder}: it has format {header['format']}, this version of t2t reads formats up to "
            f"{FORMAT}; use the version of t2t that wrote it, or a later one"
        )
    if types != {"step": int, "state": dict} or not _is_state(header["state"]):
        raise _damaged(folder, f"{STATE_FILE} holds other kinds of entries than a state")
    return header


def _is_state(state: dict[str, Any]) -> bool:
    """Tells whether the entries that are not the trainer's own are of the kinds that are written."""
    vocabularies, architecture = state.get(VOCABULARIES, {}), state.get(ARCHITECTURE, {})
    return (
        isinstance(architecture, dict)
        and isinstance(vocabularies, dict)
        and all(
            isinstance(entry, list) and list(map(type, entry)) == [str, int, str] for entry in vocabularies.values()
        )
    )


def _read_checksums(folder: Path) -> dict[str, str]:
    if not folder.is_dir():
        raise _damaged(folder, "the folder is missing")
    try:
        checksums = read_sealed(folder / CHECKSUM_FILE)
    except FileNotFoundError:
        raise _damaged(folder, f"{CHECKSUM_FILE} is missing") from None
    except ValueError:
        checksums = {}
    # anything but the exact bytes that would be written for these values is damage
    if _json_bytes(checksums) != (folder / CHECKSUM_FILE).read_bytes():
        raise _damaged(folder, f"{CHECKSUM_FILE} is not what was written")
    return checksums


def _verify(folder: Path, file: str, checksums: dict[str, str]) -> None:
    if file not in checksums:
        raise _damaged(folder, f"{CHECKSUM_FILE} does not list {file}")
    check_inside(folder, folder / file)
    try:
        found = sha256_of(folder / file)
    except FileNotFoundError:
        raise _damaged(folder, f"{file} is missing") from None
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise _damaged(folder, f"{file} cannot be read from the disk (input/output error)") from error
    if found != checksums[file]:
        raise _damaged(
            folder,
            f"{file} is not what was written (sha256 {found[:12]}, {CHECKSUM_FILE} says {checksums[file]!s:.12})",
        )


def _damaged(folder: Path, wrong: str) -> DamagedCheckpointError:
    return DamagedCheckpointError(
        f"checkpoint {folder} is damaged: {wrong}; restore it from a copy or ask for another checkpoint"
    )
