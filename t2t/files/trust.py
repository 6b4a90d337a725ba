"""What a file of unknown origin must pass before anything that it says is used.

A small JSON file that other files depend on (a run's record, a manifest, a pointer) is sealed: its entry `seal` is the
digest of all its other entries and of the file's name. So a flipped digit, or a file in another's place, is
detected. The seal's form is the same in every format, so that damage is distinguished from a newer format. Files
without a seal are read: the first versions wrote them, and who changes a file by hand removes the entry.
"""

import contextlib
import hashlib
import json
import os
import re
import stat
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from t2t.errors import UserError
from t2t.files.atomic import write_atomically

Record = TypeVar("Record")

PLAIN_NAME = re.compile(r"\A[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}\Z")
"""What names of files in a folder's description look like: none leads out of the folder."""

SEAL = "seal"
MOST_BYTES = 64 << 20
"""Of a JSON file; a larger one is not read into memory."""


PlainName = Annotated[str, msgspec.Meta(pattern=PLAIN_NAME.pattern)]
"""Type of the fields of records that name files."""


def read_record(kind: type[Record], plain: Any) -> Record:
    """Returns a dataclass from the JSON of one, whose types are checked at any depth.

    Raises:
        ValueError: an entry is missing, unknown, or of another type; the message says where.
    """
    try:
        record = msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    _refuse_unknown(plain, msgspec.to_builtins(record))
    return record


def _refuse_unknown(plain: Any, read: Any) -> None:
    """Refuses entries that were not read: misspelt ones, and those of a newer version."""
    if isinstance(plain, dict):
        for name, value in plain.items():
            if name not in read:
                raise ValueError(f"it has an entry {name!r}, which no record has")
            _refuse_unknown(value, read[name])
    elif isinstance(plain, list):
        for value, part in zip(plain, read, strict=True):
            _refuse_unknown(value, part)


def check_inside(folder: Path | str, file: Path | str) -> None:
    """Refuses what is in a folder and is a link that leads out of it, or a pipe or device; it may be missing.

    Raises:
        UserError: see above.
    """
    home, there = os.path.realpath(folder), os.path.realpath(file)
    if there != home and not there.startswith(os.path.join(home, "")):
        raise UserError(f"{file} is a link to outside {folder}; put a copy of what it leads to in its place")
    with contextlib.suppress(OSError):  # it is missing, or is removed just now
        kind = stat.S_IFMT(os.stat(there).st_mode)
        if kind in (stat.S_IFREG, stat.S_IFDIR):
            return
        raise UserError(f"{file} is neither a file nor a folder but a pipe, socket or device; remove it")


def sealed(name: str, values: dict[str, Any]) -> dict[str, Any]:
    """Returns what a file of this name is to hold: the values, plain JSON, and their seal."""
    return {**values, SEAL: _digest(name, values)}


def write_sealed(path: Path, values: dict[str, Any]) -> None:
    """Replaces a sealed JSON file, or makes it; `values` are plain JSON.

    Raises:
        OSError: see `write_atomically`.
    """
    write_atomically(path, json.dumps(sealed(Path(path).name, values)).encode())


def read_sealed(path: Path) -> dict[str, Any]:
    """Reads a JSON file that may be sealed; returns what it holds, without the seal.

    Raises:
        OSError: it is missing or cannot be read.
        UserError: it leads out of its folder.
        ValueError: it is no JSON object, or not what was written.
    """
    path = Path(path)
    check_inside(path.parent, path)
    with path.open("rb") as file:
        return parse_sealed(path.name, file.read(MOST_BYTES + 1))


def parse_sealed(name: str, content: bytes) -> dict[str, Any]:
    """Returns what the content of a file of this name holds, without the seal; see `read_sealed`.

    Raises:
        ValueError: it is no JSON object, not what was written, or longer than `MOST_BYTES`.
    """
    if len(content) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
    try:
        values = json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(values, dict):
        raise ValueError("it holds no entries")
    seal = values.pop(SEAL, None)
    if seal is not None and seal != _digest(name, values):
        raise ValueError(f"it is not what was written: its entry {SEAL} belongs to something else")
    return values


def _digest(name: str, values: dict[str, Any]) -> str:
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(f"{name}\n{text}".encode()).hexdigest()
