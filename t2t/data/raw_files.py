"""Records the contents of the raw files of generated data, so that changed files under the same paths are noticed.

A file is identified by its size and the sha256 of its whole content. The modification time is not reliable: a copy has
another one, and tools can keep an old one. A digest of parts is not enough either: corpora are corrected in the middle.
Reading everything takes about a second per gigabyte, as checking the generated data does, and happens only when data is
generated.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from t2t.errors import UserError
from t2t.files.atomic import remedy_of, sha256_of
from t2t.files.paths import address_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class RawFile:
    """A raw file at the time when data was made from it."""

    path: str
    bytes: int
    sha256: str


def describe_raw_files(files: Mapping[str, Path]) -> dict[str, RawFile]:
    """Returns the records of files, by the names that the problem gives them; missing files are left out.

    Raises:
        UserError: a file cannot be read.
    """
    return {name: _described(path) for name, path in files.items() if Path(path).is_file()}


def check_raw_files(recorded: Mapping[str, RawFile], files: Mapping[str, Path], folder: Path) -> None:
    """Refuses data if the content of a raw file has changed since it was made; missing files are ignored.

    A file is found among those recorded by its name, or else by its path: earlier versions gave some files other names.

    Raises:
        UserError: the message names every file that differs.
    """
    by_path = {file.path: file for file in recorded.values()}
    before = {Path(path): recorded.get(name) or by_path.get(recorded_path(Path(path))) for name, path in files.items()}
    differing = [
        str(path) for path, file in before.items() if file and path.is_file() and not has_same_content(path, file)
    ]
    if differing:
        raise UserError(
            f"{folder} was made when {', '.join(differing)} held something else; to generate it again, delete that "
            f"folder or choose another --data_dir; to use the data as it is, do not generate it again"
        )


def has_same_content(path: Path, recorded: RawFile) -> bool:
    """Returns whether a file exists and has the content of a recorded one, whatever its path was.

    Raises:
        UserError: the file cannot be read.
    """
    return path.is_file() and path.stat().st_size == recorded.bytes and _described(path).sha256 == recorded.sha256


def recorded_path(path: Path) -> str:
    """Returns a path as a `RawFile` records it: the address of a file of an object store."""
    return address_of(path) or str(path)


def _described(path: Path) -> RawFile:
    try:
        return RawFile(path=recorded_path(path), bytes=path.stat().st_size, sha256=sha256_of(path))
    except OSError as error:
        cure = remedy_of(error, "correct its permissions")
        raise UserError(f"{path}: cannot be read ({error.strerror}); {cure}") from None
