"""Folders that are written and replaced whole, so that one with a name is complete.

A folder is written under a temporary name and renamed. A crash between two renames leaves a state that reads as the one
before it; the next writer removes the leftovers.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from t2t.files.atomic import TEMPORARY, fsync_dir, os_errors_as_machine_errors
from t2t.files.remote import mirror
from t2t.files.trust import check_inside

REPLACED = ".old-"
"""A folder on its way out while another of the same name moves in; still valid where that never arrived."""


class NamedFolders:
    """The folders of one kind of names in a root, which need not be there yet.

    Args:
        root: the folder above them, which may be in the mirror of an object store.
        is_name: tells their names from others.
        marker: file that each has; a store has a folder once it has its marker, which is written last.
    """

    def __init__(self, root: Path, is_name: Callable[[str], bool], marker: str):
        self.root, self._is_name, self._marker = root, is_name, marker

    def names(self) -> set[str]:
        """Returns the names of all complete folders; of a store, those that it lists or that this machine has, too."""
        if mirror.is_mirrored(self.root):
            files = [Path(name) for name in mirror.list_files(self.root)]
            listed = {
                path.parts[0] for path in files if path.parts[1:] == (self._marker,) and self._is_name(path.parts[0])
            }
            copies = {path.name for path in self._folders("*")} - listed  # a list may lag behind
            return listed | {name for name in copies if self.has(name)}
        if not self.root.is_dir():
            return set()
        with os_errors_as_machine_errors(f"cannot list the checkpoints in {self.root}"):
            folders = [path for path in self.root.iterdir() if self._is_name(path.name.removeprefix(REPLACED))]
        for folder in folders:
            check_inside(self.root, folder)
        return {folder.name.removeprefix(REPLACED) for folder in folders if folder.is_dir()}

    def has(self, name: str) -> bool:
        """Returns whether a complete folder has a name; of a store, even where its list lags behind."""
        if mirror.is_mirrored(self.root):
            return self._is_name(name) and mirror.exists(self.root / name / self._marker)
        return name in self.names()

    def path(self, name: str) -> Path:
        """Returns where the folder of a name is, or would be."""
        folder, replaced = self.root / name, self.root / (REPLACED + name)
        return replaced if replaced.is_dir() and not folder.is_dir() else folder

    def make_root(self) -> None:
        """Makes the root where there is none."""
        if not self.root.is_dir():
            self.root.mkdir(parents=True)
            fsync_dir(self.root.parent)

    def write(self, name: str, leftovers: str, fill: Callable[[Path], None]) -> None:
        """Makes or replaces a folder, which `fill` makes and fills; raises OSError. See `clean` for `leftovers`."""
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
        """Removes what an interrupted writer left of a pattern of names: trainer and averager have one each."""
        for path in self._folders(TEMPORARY + leftovers):
            shutil.rmtree(path)
        for path in self._folders(REPLACED + leftovers):
            target = self.root / path.name.removeprefix(REPLACED)
            if target.is_dir():
                self._discard(path, target.name)
            else:
                os.rename(path, target)
        if mirror.is_mirrored(self.root):  # what another machine has removed meanwhile
            for path in self._folders(leftovers):
                if not self.has(path.name):
                    mirror.forget_folder(path)

    def remove(self, name: str) -> None:
        """Removes a folder so that it is never seen half removed."""
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
