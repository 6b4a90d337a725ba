"""Folders that are written and replaced atomically, so that a folder with its final name is complete.

A folder is written under a temporary name and then renamed. After a crash between two renames, readers see the state
before the write; the next writer removes the leftovers.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from t2t.files.atomic import TEMPORARY, fsync_dir, os_errors_as_machine_errors
from t2t.files.remote import mirror
from t2t.files.trust import check_inside
from t2t.files.zoo import check_outside_zoo

REPLACED = ".old-"
"""Prefix of a folder that is being replaced; it is still valid if the new folder never got its name."""


class NamedFolders:
    """The folders with one kind of names in a root folder, which need not exist yet.

    Args:
        root: their parent folder, which may mirror an object store.
        is_name: returns whether a folder's name is of this kind.
        marker: file in each of them, written last: in a store, a folder exists once it has its marker.
    """

    def __init__(self, root: Path, is_name: Callable[[str], bool], marker: str):
        self.root, self._is_name, self._marker = root, is_name, marker

    def names(self) -> set[str]:
        """Returns the names of all complete folders; for a store, of those that it lists or that are copied here."""
        if mirror.is_mirrored(self.root):
            files = [Path(name) for name in mirror.list_files(self.root)]
            listed = {
                path.parts[0] for path in files if path.parts[1:] == (self._marker,) and self._is_name(path.parts[0])
            }
            copies = {path.name for path in self._folders("*")} - listed  # a listing may lag behind
            return listed | {name for name in copies if self.has(name)}
        if not self.root.is_dir():
            return set()
        with os_errors_as_machine_errors(f"cannot list the checkpoints in {self.root}"):
            folders = [path for path in self.root.iterdir() if self._is_name(path.name.removeprefix(REPLACED))]
        for folder in folders:
            check_inside(self.root, folder)
        return {folder.name.removeprefix(REPLACED) for folder in folders if folder.is_dir()}

    def has(self, name: str) -> bool:
        """Returns whether there is a complete folder of a name; for a store, even if its listing lags behind."""
        if mirror.is_mirrored(self.root):
            return self._is_name(name) and mirror.exists(self.root / name / self._marker)
        return name in self.names()

    def path(self, name: str) -> Path:
        """Returns the path of the folder with a name, whether it exists or not."""
        folder, replaced = self.root / name, self.root / (REPLACED + name)
        return replaced if replaced.is_dir() and not folder.is_dir() else folder

    def make_root(self) -> None:
        """Creates the root folder if it does not exist; raises UserError if it is in a zoo."""
        check_outside_zoo(self.root)
        if not self.root.is_dir():
            self.root.mkdir(parents=True)
            fsync_dir(self.root.parent)

    def write(self, name: str, leftovers: str, fill: Callable[[Path], None]) -> None:
        """Writes or replaces a folder; `fill` creates it at a path. Raises OSError; see `clean` for `leftovers`."""
        self.make_root()
        self.clean(leftovers)
        temporary = self.root / (TEMPORARY + name)
        try:
            fill(temporary)
            self._move_in(temporary, name)
        except OSError:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        mirror.publish_folder(self.root / name, self._marker)

    def _move_in(self, temporary: Path, name: str) -> None:
        target, replaced = self.root / name, self.root / (REPLACED + name)
        if target.is_dir():
            os.rename(target, replaced)
        try:
            os.rename(temporary, target)
        except OSError:
            if replaced.is_dir():
                os.rename(replaced, target)
            raise
        fsync_dir(self.root)
        if replaced.is_dir():
            self._discard(replaced, name)

    def clean(self, leftovers: str) -> None:
        """Removes what interrupted writers left of names that match a pattern; trainer and averager have one each."""
        for path in self._folders(TEMPORARY + leftovers):
            shutil.rmtree(path)
        for path in self._folders(REPLACED + leftovers):
            target = self.root / path.name.removeprefix(REPLACED)
            if target.is_dir():
                self._discard(path, target.name)
            else:
                os.rename(path, target)
        if mirror.is_mirrored(self.root):  # copies of folders that another machine has removed
            for path in self._folders(leftovers):
                if not self.has(path.name):
                    mirror.forget_folder(path)

    def remove(self, name: str) -> None:
        """Removes a folder; readers never see it partly removed."""
        mirror.withdraw(self.root / name, self._marker)
        if self.path(name).is_dir() or not mirror.is_mirrored(self.root):
            self._discard(self.path(name), name)

    def _folders(self, pattern: str) -> list[Path]:
        return sorted(path for path in self.root.glob(pattern) if path.is_dir())

    def _discard(self, folder: Path, name: str) -> None:
        temporary = self.root / (TEMPORARY + name)
        if temporary.is_dir():
            shutil.rmtree(temporary)
        os.rename(folder, temporary)
        shutil.rmtree(temporary)
