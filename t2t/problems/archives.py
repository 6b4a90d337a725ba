"""Raw data in an archive (.tar, .tar.gz, .tar.xz or .zip), or in the folder into which it was unpacked.

Archives are read in memory and never unpacked on the disk, so that paths in them can do no harm.
"""

import bz2
import contextlib
import functools
import gzip
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from t2t.errors import UserError, one_line
from t2t.files.atomic import remedy_of

MOST_BYTES = 1 << 30
"""Most bytes of the files read from an archive, in total: a small archive can unpack to more than fits into memory."""
_MOST_HEADER_BYTES = 1 << 16
"""Most bytes of all headers of a file in a tar archive: long paths, attributes, maps of sparse files."""
_MOST_GLOBAL_ATTRIBUTES = 100
_PACKED = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
"""First bytes of a packed file -> how it is opened."""


def find_first_existing(folder: Path, names: Sequence[str]) -> Path | None:
    """Returns the first of some files or folders that exists, or None."""
    return next((path for name in names if os.path.exists(path := Path(folder) / name)), None)


def read_members(data_path: Path, wanted: Callable[[str], bool], most_bytes: int = MOST_BYTES) -> dict[str, bytes]:
    """Reads files from a folder, or from an archive as if it were unpacked.

    Args:
        data_path: a folder, or an archive.
        wanted: returns whether to read a file, given its path, e.g. `cifar-10-batches-bin/test_batch.bin`; paths of
            files in a folder begin with the name of the folder.
        most_bytes: largest sum of the sizes of the files of an archive.

    Returns:
        Contents by path, in the order of the paths.

    Raises:
        UserError: the archive is damaged, or unpacks to more than `most_bytes`; the message names it.
    """
    data_path, found, size = Path(data_path), {}, 0
    with _errors(data_path):
        for name, length, read in _members(data_path, wanted):
            size += 0 if data_path.is_dir() else length
            if size > most_bytes:
                raise UserError(
                    f"{data_path}: its files unpack to more than {most_bytes:,} bytes, which none of these data sets "
                    "has",
                    "check where it is from",
                )
            found[name] = read()
    return dict(sorted(found.items()))


def unpack_tar(data_path: Path, folder: Path) -> None:
    """Unpacks a tar archive, plain or packed, without files that would lie outside of the folder.

    Raises:
        UserError: the archive is damaged; the message names it.
    """
    with _errors(data_path):
        for member, archive in _tar_members(data_path):
            archive.extract(member, folder, filter="data")


def _members(data_path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, int, Callable[[], bytes]]]:
    """Yields the path, the unpacked size in bytes and a read function of each wanted file."""
    if data_path.is_dir():
        for path in sorted(data_path.rglob("*")):
            name = path.relative_to(data_path.parent).as_posix()
            if path.is_file() and wanted(name):
                yield name, path.stat().st_size, path.read_bytes
    elif zipfile.is_zipfile(data_path):
        with zipfile.ZipFile(data_path) as archive:
            for info in archive.infolist():
                if wanted(info.filename) and not info.is_dir():
                    yield info.filename, info.file_size, functools.partial(_unpacked, archive, info)
    else:
        for member, tar in _tar_members(data_path):
            name = member.name.removeprefix("./")
            content = tar.extractfile(member) if member.isfile() and wanted(name) else None
            if content is not None:
                yield name, member.size, content.read


def _tar_members(data_path: Path) -> Iterator[tuple[tarfile.TarInfo, tarfile.TarFile]]:
    """Yields what is in a tar archive, plain or packed, and the archive; each may be read until the next is taken.

    What headers say is not believed: memory stays bounded, and the positions of headers must grow.

    Raises:
        tarfile.TarError: it is no tar archive, or a header is damaged or of more than `_MOST_HEADER_BYTES`.
    """
    with open(data_path, "rb") as file:
        start = file.read(6)
    opened: Any = next((opener for magic, opener in _PACKED.items() if start.startswith(magic)), open)
    with opened(data_path, "rb") as stream:
        bounded = _BoundedStream(stream)
        with tarfile.open(mode="r:", fileobj=bounded) as archive:  # type: ignore[call-overload]  # needs no whole stream
            end = -1
            while (member := archive.next()) is not None:
                if member.size < 0 or member.offset <= end or len(archive.pax_headers) > _MOST_GLOBAL_ATTRIBUTES:
                    raise tarfile.ReadError(f"the header at byte {member.offset:,} is not plausible")
                end = member.offset
                bounded.left = member.size
                yield member, archive
                bounded.left = _MOST_HEADER_BYTES
                archive.members.clear()  # it keeps all headers that it has read


class _BoundedStream:
    """A stream of which no more than `left` bytes are read: tarfile reads headers of any size that they claim."""

    def __init__(self, stream: BinaryIO):
        self._stream, self.left = stream, _MOST_HEADER_BYTES
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise tarfile.ReadError(f"headers claim {size:,} bytes where {self.left:,} are allowed")
        self.left -= size
        return self._stream.read(size)


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    with archive.open(info) as file:
        return file.read(info.file_size + 1)  # without a limit, 2 GiB are unpacked, whatever size the archive says


_OF_HEADERS = (EOFError, RuntimeError, ValueError, OverflowError)
"""What else the libraries raise for damaged headers."""


@contextlib.contextmanager
def _errors(data_path: Path) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, *_OF_HEADERS) as error:
        raise UserError(f"{data_path}: the archive is damaged ({one_line(error)})", "download it again") from None
    except OSError as error:
        cure = remedy_of(error, "download it again")
        raise UserError(f"{data_path}: cannot be read ({error.strerror or one_line(error)})", cure) from None
