"""A folder of checkpoints: their names, their folders, and the files that point to the latest and the best.

A folder is written under a temporary name and then renamed, so that a folder with its final name is complete. After a
crash between two renames, readers see the state before the write; the next writer removes the leftovers.
"""

import math
import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from t2t.checkpoints.checkpoint import DamagedCheckpointError
from t2t.files.atomic import TEMPORARY, fsync_dir, os_errors_as_machine_errors
from t2t.files.paths import check_outside_zoo
from t2t.files.remote import mirror
from t2t.files.remote.mirror import fetch, names_in, publish
from t2t.files.trust import check_inside, read_sealed, write_sealed

LATEST, BEST, AVERAGED = "latest", "best", "averaged"

_STEP_NAME = re.compile(r"step-(\d{8,})\Z")
_EXTRA_NAME = re.compile(rf"{AVERAGED}(-[A-Za-z0-9]+)*\Z")


def step_name(step: int) -> str:
    """Returns the name of the folder of a step's checkpoint."""
    return f"step-{step:08d}"


def step_of(name: str) -> int | None:
    """Returns the step in the name of a folder; None if it has none."""
    match = _STEP_NAME.match(name)
    return int(match[1]) if match and step_name(int(match[1])) == name else None


def is_extra_name(name: str) -> bool:
    """Returns whether this is a valid name of a checkpoint that is not named after a step."""
    return bool(_EXTRA_NAME.match(name))


def is_name(name: str) -> bool:
    """Returns whether this is a valid name of a checkpoint."""
    return step_of(name) is not None or is_extra_name(name)


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


LATEST_FILE = "latest.json"
"""Pointer to the latest checkpoint, in the folder of checkpoints."""


class Pointer:
    """One pointer file; `types` maps the names of the values that it holds to their types."""

    def __init__(self, path: Path, types: dict[str, type]):
        self.path = path
        self._types = types

    def write(self, **values: Any) -> None:
        """Replaces the values; raises OSError, and then keeps the old ones."""
        write_sealed(self.path, values)
        publish(self.path)

    def publish(self) -> None:
        """Uploads values that an interrupted `write` left on this machine only, unless others replaced them since.

        Raises:
            MachineError: the store refuses or does not respond.
            OSError: the mirror cannot be written.
        """
        fetch(self.path)
        if self.path.is_file():
            publish(self.path)

    def read(self) -> dict[str, Any] | None:
        """Returns the values; None if they were never written.

        Raises:
            DamagedCheckpointError: the file holds anything else.
        """
        with os_errors_as_machine_errors(f"cannot read {self.path}"):
            fetch(self.path)
            try:
                values = read_sealed(self.path)
            except FileNotFoundError:
                return None
            except ValueError:
                values = {}
        if {name: type(value) for name, value in values.items()} != self._types:
            raise DamagedCheckpointError(f"{self.path} is damaged", "remove it and name a checkpoint by its step")
        return values


@dataclass(frozen=True)
class Best:
    """The best checkpoint so far, with the figure that decided."""

    step: int
    metric: str
    value: float


class BestPointers:
    """The files in a folder of checkpoints, `folder`, that point to the best ones."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._ranking = Pointer(folder / "ranking.json", {"metric": str, "steps": list, "values": list})

    def best(self, problem: str = "") -> Best | None:
        """Returns the best checkpoint, of a problem if one is named; None if none was marked.

        Raises:
            DamagedCheckpointError: the pointer is unreadable.
        """
        pointer = self._best_pointer(problem).read()
        return Best(**pointer) if pointer and math.isfinite(pointer["value"]) else None

    def ranking(self) -> list[Best]:
        """Returns the best checkpoints of the run, best first; empty if only the best one is kept.

        Raises:
            DamagedCheckpointError: the list is unreadable.
        """
        found = self._ranking.read()
        if found is None:
            return []
        steps, values = found["steps"], found["values"]
        if len(steps) != len(values) or {*map(type, steps)} - {int} or {*map(type, values)} - {float}:
            raise DamagedCheckpointError(
                f"{self._ranking.path} is damaged", "remove it and name a checkpoint by its step"
            )
        return [Best(step, found["metric"], value) for step, value in zip(steps, values, strict=True)]

    def rank_best(self, ranking: Sequence[Best]) -> None:
        """Records the best checkpoints of the run, best first, by one figure; `prune` keeps all of them."""
        with os_errors_as_machine_errors(f"cannot rank the best checkpoints in {self.folder}"):
            self._ranking.write(
                metric=ranking[0].metric,
                steps=[one.step for one in ranking],
                values=[float(one.value) for one in ranking],
            )

    def _problems_with_best(self) -> list[str]:
        """Returns the problems with a marked best checkpoint, an empty name for the run's."""
        copies = {path.name for path in self.folder.glob("best*.json")}  # a store's listing may lag behind
        names = {"best.json"} | copies | names_in(self.folder)
        stems = sorted(name.removesuffix(".json") for name in names if re.fullmatch(r"best(\..*)?\.json", name))
        return [stem.removeprefix(BEST).removeprefix(".") for stem in stems]

    def _best_pointer(self, problem: str) -> Pointer:
        path = self.folder / (f"best.{problem}.json" if problem else "best.json")
        return Pointer(path, {"step": int, "metric": str, "value": float})
