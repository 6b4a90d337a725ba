"""Checks that files of unknown origin must pass before their contents are used.

Small JSON files that other files depend on (a run's record, a manifest, a pointer) are sealed: the entry `seal` is the
digest of all other entries and of the file's name. This detects a flipped digit, or a file in another's place. The seal
has the same form in every format, so that damage can be told from a newer format. Files without a seal are accepted:
the first versions wrote none, and users who edit a file by hand remove the entry.

Marks of a file, its size and times, tell whether it has changed since it was last checked.
"""

import contextlib
import functools
import hashlib
import json
import os
import pickle
import pickletools
import re
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, BinaryIO, TypeVar

import msgspec

from t2t.errors import UserError, one_line
from t2t.files.atomic import write_atomically

Record = TypeVar("Record")

PLAIN_NAME = re.compile(r"\A[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}\Z")
"""Pattern of file names in a folder's description: none leads out of the folder."""

SEAL = "seal"
MOST_BYTES = 64 << 20
"""Largest JSON file that is read."""
_MOST_REPEATED = 64
"""Most values that a byte of a pickle may stand for, shared ones counted wherever they appear."""


PlainName = Annotated[str, msgspec.Meta(pattern=PLAIN_NAME.pattern)]
"""Type of the fields of records that name files."""


def read_record(kind: type[Record], plain: Any) -> Record:
    """Builds a dataclass from plain JSON, checking types at any depth.

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
    """Refuses a file in a folder if it is a link that leads out of it, or a pipe, socket or device; it may be missing.

    Raises:
        UserError: in these cases.
    """
    home, there = os.path.realpath(folder), os.path.realpath(file)
    if there != home and not there.startswith(os.path.join(home, "")):
        raise UserError(f"{file} is a link to outside {folder}", "put a copy of what it leads to in its place")
    with contextlib.suppress(OSError):  # it is missing, or has just been removed
        kind = stat.S_IFMT(os.stat(there).st_mode)
        if kind in (stat.S_IFREG, stat.S_IFDIR):
            return
        raise UserError(f"{file} is neither a file nor a folder but a pipe, socket or device", "remove it")


def check_pickle(stream: BinaryIO) -> None:
    """Refuses a pickle that needs far more memory or time than its size tells; nothing is unpickled.

    A memo entry with a large number reserves a table of that size. A tuple that contains another one twice, which does
    so too, and so on, is hashed in a time that doubles with each. A restricted `find_class` prevents neither.

    Args:
        stream: with a pickle at its position, which stays the same.

    Raises:
        pickle.UnpicklingError: it is no pickle, or is cut short.
        ValueError: it is such a pickle.
    """
    start = stream.tell()
    sizes, memo = list[int | None](), dict[int, int]()  # sizes of the values on the stack, None for a mark
    try:
        for opcode, argument, position in pickletools.genops(stream):
            index, read = len(memo) if argument is None else argument, (position or 0) - start
            if "PUT" in opcode.name or opcode.name == "MEMOIZE":
                if index > read:
                    raise OverflowError(f"it numbers a value {index:,}, although it has fewer")
                memo[index] = sizes[-1] or 0
            elif "GET" in opcode.name:
                sizes.append(memo[index])
            elif opcode.name == "DUP":
                sizes.append(sizes[-1])
            else:
                _change_stack(sizes, opcode)
            if sizes and (sizes[-1] or 0) > _MOST_REPEATED * (read + 1):
                raise OverflowError("it repeats shared values in others too often")
    except OverflowError as error:
        raise ValueError(f"{error}; it is damaged, or made to fill the memory") from None
    except Exception as error:
        raise pickle.UnpicklingError(one_line(error)) from error
    stream.seek(start)


def _change_stack(sizes: list[int | None], opcode: pickletools.OpcodeInfo) -> None:
    """Replaces what an operation takes from the stack by its result, whose size is the sum."""
    before = opcode.stack_before
    first = len(sizes) - len(before)
    if pickletools.markobject in before:
        mark = len(sizes) - 1 - sizes[::-1].index(None)
        first = mark - before.index(pickletools.markobject)
    if first < 0:
        raise EOFError("it takes more than it has")
    taken = sum(size or 0 for size in sizes[first:])
    sizes[first:] = [None if kind is pickletools.markobject else 1 + taken for kind in opcode.stack_after]


def sealed(name: str, values: dict[str, Any]) -> dict[str, Any]:
    """Returns the contents for a file of this name: the values, plain JSON, and their seal."""
    return {**values, SEAL: _digest(name, values)}


def write_sealed(path: Path, values: dict[str, Any]) -> None:
    """Creates or replaces a sealed JSON file; `values` are plain JSON.

    Raises:
        OSError: see `write_atomically`.
    """
    write_atomically(path, json.dumps(sealed(Path(path).name, values)).encode())


def read_sealed(path: Path) -> dict[str, Any]:
    """Reads a JSON file that may be sealed; returns its entries without the seal.

    Raises:
        OSError: it is missing or cannot be read.
        UserError: it is a link that leads out of its folder.
        ValueError: it is not a JSON object, or does not match its seal.
    """
    path = Path(path)
    check_inside(path.parent, path)
    with path.open("rb") as file:
        return parse_sealed(path.name, file.read(MOST_BYTES + 1))


def parse_sealed(name: str, content: bytes) -> dict[str, Any]:
    """Returns the entries in the content of a file of this name, without the seal; see `read_sealed`.

    Raises:
        ValueError: it is not a JSON object, does not match its seal, or is longer than `MOST_BYTES`.
    """
    if len(content) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
    try:
        values = json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(values, dict):
        raise ValueError("it has no entries")
    seal = values.pop(SEAL, None)
    if seal is not None and seal != _digest(name, values):
        raise ValueError(f"it is not what was written: its entry {SEAL} belongs to something else")
    return values


def _digest(name: str, values: dict[str, Any]) -> str:
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(f"{name}\n{text}".encode()).hexdigest()


T = TypeVar("T")

_SETTLED_NS = 2_000_000_000
"""Age at which a file's times will show every later change: file systems store times in steps of up to 2 s."""


def file_marks(path: Path | str) -> list[int]:
    """Returns size in bytes, inode number, and times of modification and of status change in nanoseconds.

    Writing to a file, copying or replacing it changes at least one of them.

    Raises:
        OSError: there is no such file.
    """
    status = os.stat(path)
    return [status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]


def remembered(read: Callable[[Path], T]) -> Callable[[Path], T]:
    """Returns a function that reads a file as `read` does, but again only if the file has changed since.

    All callers get the same object, so that none may change it. Errors are not remembered.
    """

    @functools.lru_cache(maxsize=8)
    def read_version(path: Path, *marks: int) -> T:
        return read(path)

    @functools.wraps(read)
    def read_or_recall(path: Path) -> T:
        marks = file_marks(path)
        return read_version(path, *marks) if is_settled(marks) else read(path)

    return read_or_recall


def is_settled(marks: list[int]) -> bool:
    """Returns whether a file is so old that every later change gives it other times, unless the clock is set back."""
    return time.time_ns() - max(marks[2:]) > _SETTLED_NS
