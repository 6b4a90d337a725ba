"""Generated data in the mirror of an object store. The manifest is uploaded last: without it the store has no data.

During generation the plan and the shards are mirrored too, so that tasks on several machines share them through the
store. On folders that are not mirrors these functions have no effect.
"""

import contextlib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from t2t.data.generation.plan import PLAN_NAME, WORK, GenerationPlan
from t2t.data.generation.verdicts import DIGESTS
from t2t.data.generation.work_folders import RECORD_NAME
from t2t.data.manifest import MANIFEST_NAME, FileRecord, Manifest
from t2t.data.verification import find_changed
from t2t.errors import UserError
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.files.remote import mirror
from t2t.problems.base import Problem


def refresh(folder: Path) -> None:
    """Updates the manifest of mirrored data; if the store no longer has it, removes the local copy of the data."""
    if not mirror.is_mirrored(folder):
        return
    with _errors_of(folder):
        was_there = (folder / MANIFEST_NAME).exists()
        mirror.fetch(folder / MANIFEST_NAME)
        if was_there and not (folder / MANIFEST_NAME).exists():
            mirror.forget_folder(folder)


def fetch_data(folder: Path, manifest: Manifest, splits: Collection[str]) -> None:
    """Fetches the vocabularies and the files of some splits, as far as the mirror lacks them or has damaged copies.

    The store is asked for those only: what has the checksum in the manifest is what the store has.
    """
    if not mirror.is_mirrored(folder):
        return
    files = [file for split in splits for file in manifest.split(split).files()]
    with _errors_of(folder):
        changed = [folder / name for name in find_changed(folder, files)]
        for path in changed:
            mirror.drop_copy(path)
        mirror.fetch(*_vocabulary_files(folder, manifest), *changed)


def fetch_raw_files(problem: Problem, tmp_dir: Path) -> None:
    """Fetches the raw files: those named by the problem's options, and all of a mirrored `tmp_dir`."""
    named = [path for name in problem.options.file_names() for path in problem.options.paths(name)]
    with _errors_of(tmp_dir):
        mirror.fetch(*named, *(tmp_dir / name for name in mirror.list_files(tmp_dir)))  # each once, as some are in both


def is_published(folder: Path) -> bool:
    """Returns whether the store has the data of a mirrored folder; True for any other folder."""
    return not mirror.is_mirrored(folder) or mirror.is_recorded(folder / MANIFEST_NAME)


@contextlib.contextmanager
def dropping_unpublished(folder: Path) -> Iterator[None]:
    """Removes a mirrored folder if the `with` block raises a UserError and the store does not have its data.

    An interrupted generation of other data has left it there. In all other cases the error is raised.
    """
    try:
        yield
    except UserError:
        if is_published(folder):
            raise
        mirror.forget_folder(folder)


def publish_data(folder: Path, manifest: Manifest) -> None:
    """Writes data to the store that its folder mirrors; skips files that an interrupted attempt has written.

    Raises:
        MachineError: the store refuses or does not respond; repeating the call resumes.
    """
    if mirror.is_mirrored(folder):
        files: list[FileRecord] = [file for split in manifest.splits.values() for file in split.files()]
        with _errors_of(folder):
            mirror.publish(*_vocabulary_files(folder, manifest), *(folder / file.name for file in files))
            mirror.publish(folder / MANIFEST_NAME)


def fetch_plan(partial: Path) -> None:
    """Fetches the plan and the vocabularies."""
    names = [name for name in mirror.list_files(partial) if "/" not in name]
    with _errors_of(partial):
        mirror.fetch(*(partial / name for name in names), partial / WORK / PLAN_NAME)
        if mirror.is_mirrored(partial):
            (partial / WORK).mkdir(parents=True, exist_ok=True)


def publish_plan(partial: Path, plan: GenerationPlan) -> None:
    """Writes the vocabularies, then the plan, to the store."""
    with _errors_of(partial):
        mirror.publish(*(partial / vocabulary.file for vocabulary in plan.vocabularies.values()))
        mirror.publish(partial / WORK / PLAN_NAME)


def publish_shards(folders: Iterable[Path]) -> None:
    """Writes finished shards to the store, the record of each last."""
    for folder in folders:
        with _errors_of(folder):
            mirror.publish_folder(folder, RECORD_NAME)


def fetch_digests(partial: Path) -> None:
    """Fetches the digests that all tasks have written, to find duplicates."""
    names = [name for name in mirror.list_files(partial) if name.startswith(f"{WORK}/{DIGESTS}")]
    with _errors_of(partial):
        mirror.fetch(*(partial / name for name in names))


def fetch_shards(partial: Path) -> None:
    """Fetches the plan and all finished shards."""
    with _errors_of(partial):
        mirror.fetch_folder(partial)


def withdraw_shards(partial: Path) -> None:
    """Removes plan and shards from the store, once it has the data."""
    with _errors_of(partial):
        mirror.withdraw(partial, f"{WORK}/{PLAN_NAME}")


def _vocabulary_files(folder: Path, manifest: Manifest) -> list[Path]:
    return [folder / name for name in sorted({vocabulary.file for vocabulary in manifest.vocabularies.values()})]


def _errors_of(folder: Path) -> contextlib.AbstractContextManager[None]:
    return os_errors_as_machine_errors(f"cannot mirror {folder}")
