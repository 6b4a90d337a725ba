"""What the raw files of generated data held, so that data of other contents is noticed under the same paths.

A file is known by its size and the sha256 of all of it. Its time of change says too little: a copy has another one, and
tools can keep an old one; parts of a file say too little, since corpora are mended in their middles. Reading it all
costs about a second a gigabyte, as checking the generated data does, and only where data is asked to be generated.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from t2t.errors import UserError
from t2t.files.atomic import sha256_of
from t2t.files.paths import address_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class RawFile:
    """What one raw file was when data was made from it."""

    path: str
    bytes: int
    sha256: str


def describe_raw_files(files: Mapping[str, Path]) -> dict[str, RawFile]:
    """Returns what files hold, by the names that the problem gives them; those that are not there are left out.

    Raises:
        UserError: a file cannot be read.
    """
    return {name: _described(path) for name, path in files.items() if Path(path).is_file()}


def check_raw_files(recorded: Mapping[str, RawFile], files: Mapping[str, Path], folder: Path) -> None:
    """Refuses data that was made when a raw file held something else; files that are gone do not matter.

    Raises:
        UserError: the message names every file that differs.
    """
    there = {name: Path(path) for name, path in files.items() if name in recorded and Path(path).is_file()}
    differing = [str(path) for name, path in there.items() if not has_same_content(path, recorded[name])]
    if differing:
        raise UserError(
            f"{folder} was made when {', '.join(differing)} held something else; to generate it again, delete that "
            f"folder or choose another --data_dir; to use the data as it is, do not generate it again"
        )


def has_same_content(path: Path, recorded: RawFile) -> bool:
    """Returns whether there is a file that holds what a raw file held, wherever that lay.

    Raises:
        UserError: the file cannot be read.
    """
    return path.is_file() and path.stat().st_size == recorded.bytes and _described(path).sha256 == recorded.sha256


def recorded_path(path: Path) -> str:
    """Returns a path as a `RawFile` has it: of an object store its address."""
    return address_of(path) or str(path)


def _described(path: Path) -> RawFile:
    try:
        return RawFile(path=recorded_path(path), bytes=path.stat().st_size, sha256=sha256_of(path))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); correct its permissions") from None
