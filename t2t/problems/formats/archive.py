"""Raw data in an archive (.tar, .tar.gz, .tar.xz or .zip), or in the folder into which it was unpacked.

Archives are read in memory and never unpacked on the disk, so that paths in them can do no harm.
"""

import contextlib
import functools
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from t2t.errors import UserError, one_line
from t2t.files.atomic import remedy_of

MOST_BYTES = 1 << 30
"""Most bytes of the files read from an archive, in total: a small archive can unpack to more than fits into memory."""


def find_first_existing(folder: Path, names: Sequence[str]) -> Path | None:
    """Returns the first of some files or folders that exists, or None."""
    return next((path for name in names if os.path.exists(path := Path(folder) / name)), None)


def read_members(place: Path, wanted: Callable[[str], bool], most_bytes: int = MOST_BYTES) -> dict[str, bytes]:
    """Reads files from a folder, or from an archive as if it were unpacked.

    Args:
        place: a folder, or an archive.
        wanted: returns whether to read a file, given its path, e.g. `cifar-10-batches-bin/test_batch.bin`; paths of
            files in a folder begin with the name of the folder.
        most_bytes: largest sum of the sizes of the files of an archive.

    Returns:
        Contents by path, in the order of the paths.

    Raises:
        UserError: the archive is damaged, or unpacks to more than `most_bytes`; the message names it.
    """
    place, found, size = Path(place), {}, 0
    with _errors(place):
        for name, length, read in _members(place, wanted):
            size += 0 if place.is_dir() else length
            if size > most_bytes:
                raise UserError(
                    f"{place}: its files unpack to more than {most_bytes:,} bytes, which none of these data sets has; "
                    f"check where it is from"
                )
            found[name] = read()
    return dict(sorted(found.items()))


def _members(place: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, int, Callable[[], bytes]]]:
    """Yields the path, the unpacked size in bytes and a read function of each wanted file."""
    if place.is_dir():
        for path in sorted(place.rglob("*")):
            name = path.relative_to(place.parent).as_posix()
            if path.is_file() and wanted(name):
                yield name, path.stat().st_size, path.read_bytes
    elif zipfile.is_zipfile(place):
        with zipfile.ZipFile(place) as archive:
            for info in archive.infolist():
                if wanted(info.filename) and not info.is_dir():
                    yield info.filename, info.file_size, functools.partial(_unpacked, archive, info)
    else:
        with tarfile.open(place, "r:*") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                content = archive.extractfile(member) if member.isfile() and wanted(name) else None
                if content is not None:
                    yield name, member.size, content.read


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    with archive.open(info) as file:
        return file.read(info.file_size + 1)  # without a limit, 2 GiB are unpacked, whatever size the archive says


@contextlib.contextmanager
def _errors(place: Path) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, RuntimeError) as error:
        raise UserError(f"{place}: the archive is damaged ({one_line(error)}); download it again") from None
    except OSError as error:
        cure = remedy_of(error, "download it again")
        raise UserError(f"{place}: cannot be read ({error.strerror or one_line(error)}); {cure}") from None
