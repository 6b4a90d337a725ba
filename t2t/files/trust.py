"""What a file of unknown origin must pass before anything that it says is used.

A small JSON file that other files hang on (a run's record, a manifest, a pointer) is sealed: its entry `seal` is the
digest of all its other entries and of the file's name. So a flipped digit, or a file in another's place, is told from
what was written. The form of the seal is the same in every format, so that damage is told from a newer format. Files
without a seal are read: the first versions wrote them, and who changes a file by hand removes the entry.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import stat
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from t2t.errors import UserError

Entry = TypeVar("Entry")

PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}\Z")
"""What names of files in a folder's description look like: none leads out of the folder."""

SEAL = "seal"
MOST_BYTES = 64 << 20
"""Of a JSON file; a larger one is not read into memory."""


def check_plain_name(name: Any) -> None:
    """Refuses the name of a file that could lead out of the folder that describes it.

    Raises:
        ValueError: it is no plain file name.
    """
    if not isinstance(name, str) or not PLAIN_NAME.match(name):
        raise ValueError(f"{name!r} is not a plain file name")


_PLAIN = (bool, int, float, str, list, tuple, dict)


def check_types(record: Any) -> None:
    """Refuses a dataclass, made of JSON, that holds something else than it declares, at any depth.

    A truth value is no number; a tuple is no list. `Any`, and types that are named by a string, allow everything.

    Raises:
        TypeError: see above.
    """
    for field in dataclasses.fields(record):
        value, outer = getattr(record, field.name), typing.get_origin(field.type) or field.type
        if outer in _PLAIN and not _fits(value, outer):
            raise TypeError(f"{field.name} is of type {type(value).__name__}, not {outer.__name__}")
        if not _fits(value, field.type):
            raise TypeError(f"{field.name} holds something else than {field.type}")


def _fits(value: Any, kind: Any) -> bool:
    """Returns whether a value is of a type as annotations write it."""
    origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, one) for one in arguments)
    if origin in (int, str, bool):
        return type(value) is origin
    if origin is float:
        return type(value) in (int, float)
    if origin in (dict, Mapping):
        if type(value) is not dict or not arguments:
            return type(value) is dict
        return all(_fits(key, arguments[0]) and _fits(entry, arguments[1]) for key, entry in value.items())
    if origin in (list, tuple):  # of a tuple, those of any length
        return type(value) is origin and all(_fits(entry, part) for part in arguments[:1] for entry in value)
    return isinstance(value, origin) if isinstance(origin, type) and origin is not Any else True


def file_entry(kind: type[Entry], plain: dict[str, Any], name: str) -> Entry:
    """Returns the description of a file, a dataclass, from the JSON of one; `name` is the field that names the file.

    Raises:
        TypeError, ValueError: it is something else, or names a file outside of its folder.
    """
    entry = kind(**plain)
    check_types(entry)
    check_plain_name(getattr(entry, name))
    return entry


def check_inside(folder: Path | str, file: Path | str) -> None:
    """Refuses what stands in a folder and is a link that leads out of it, or a pipe or device; it may be missing.

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
