"""Raw data that lies in a folder as its archive unpacks, or still in the archive: .tar, .tar.gz, .tar.xz or .zip."""

import contextlib
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from t2t.errors import UserError, one_line


def first_there(folder: Path, names: Sequence[str]) -> Path | None:
    """Returns the first of some files or folders that is there, None where none is."""
    return next((path for name in names if (path := Path(folder) / name).exists()), None)


def read_members(place: Path, wanted: Callable[[str], bool]) -> dict[str, bytes]:
    """Reads files of a folder, or of an archive as if it were unpacked there.

    Args:
        place: a folder, or the file of an archive.
        wanted: tells by the path of a file, e.g. `cifar-10-batches-bin/test_batch.bin`, whether to read it; the paths
            of files in a folder begin with the name of the folder.

    Returns:
        Contents by path, in the order of the paths.

    Raises:
        UserError: the archive is damaged; the message names it.
    """
    with _errors(place):
        return dict(sorted(_members(Path(place), wanted)))


def _members(place: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    if place.is_dir():
        for path in sorted(place.rglob("*")):
            name = path.relative_to(place.parent).as_posix()
            if path.is_file() and wanted(name):
                yield name, path.read_bytes()
    elif zipfile.is_zipfile(place):
        with zipfile.ZipFile(place) as archive:
            for name in archive.namelist():
                if wanted(name) and not name.endswith("/"):
                    yield name, archive.read(name)
    else:
        with tarfile.open(place, "r:*") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if member.isfile() and wanted(name):
                    yield name, archive.extractfile(member).read()


@contextlib.contextmanager
def _errors(place: Path) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise UserError(f"{place}: the archive is damaged ({one_line(error)}); download it again") from None
    except OSError as error:
        raise UserError(f"{place}: cannot be read ({error.strerror or one_line(error)}); download it again") from None
