"""The plan and the shards of a generation in the mirror of an object store, where tasks of several machines meet."""

from collections.abc import Iterable
from pathlib import Path

from t2t.data.plan import PLAN_NAME, WORK, Plan
from t2t.data.verdicts import DIGESTS
from t2t.data.work_folders import RECORD_NAME
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.files.remote import mirror


def fetch_plan(partial: Path) -> None:
    """Fetches the plan and what lies beside it: the vocabularies."""
    names = [name for name in mirror.list_files(partial) if "/" not in name]
    with os_errors_as_machine_errors(f"cannot mirror {partial}"):
        mirror.fetch(*(partial / name for name in names), partial / WORK / PLAN_NAME)
        if mirror.is_mirrored(partial):
            (partial / WORK).mkdir(parents=True, exist_ok=True)


def publish_plan(partial: Path, plan: Plan) -> None:
    """Writes the vocabularies, then the plan, to the store."""
    with os_errors_as_machine_errors(f"cannot mirror {partial}"):
        mirror.publish(*(partial / vocabulary.file for vocabulary in plan.vocabularies.values()))
        mirror.publish(partial / WORK / PLAN_NAME)


def publish_shards(folders: Iterable[Path]) -> None:
    """Writes finished shards to the store, the record of each last."""
    for folder in folders:
        with os_errors_as_machine_errors(f"cannot mirror {folder}"):
            mirror.publish_folder(folder, RECORD_NAME)


def fetch_digests(partial: Path) -> None:
    """Fetches the digests that tasks have written, by which duplicates are found."""
    names = [name for name in mirror.list_files(partial) if name.startswith(f"{WORK}/{DIGESTS}")]
    with os_errors_as_machine_errors(f"cannot mirror {partial}"):
        mirror.fetch(*(partial / name for name in names))


def fetch_shards(partial: Path) -> None:
    """Fetches the plan and all finished shards."""
    with os_errors_as_machine_errors(f"cannot mirror {partial}"):
        mirror.fetch_folder(partial)


def withdraw_shards(partial: Path) -> None:
    """Removes plan and shards from the store, once it has the data."""
    with os_errors_as_machine_errors(f"cannot mirror {partial}"):
        mirror.withdraw(partial, f"{WORK}/{PLAN_NAME}")
