"""Generation by the tasks of an array job: each makes a part of the shards, and one command merges them at the end.

Tasks share only the folder of the data. The first task makes the plan, under the lock of the generation; the others
wait for it.
"""

import logging
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from t2t.data.generation.data_folder import (
    check_places,
    data_folder,
    existing_data,
    fetch_digests,
    fetch_plan,
    fetch_raw_files,
    fetch_shards,
    is_published,
    lock_generation,
    partial_folder,
    publish_plan,
    publish_shards,
    refresh,
    settled_data,
)
from t2t.data.generation.duplicates import digest_folder, find_duplicates, missing_digests
from t2t.data.generation.generate import finish, open_plan, working
from t2t.data.generation.plan import (
    DataIdentity,
    GenerationJob,
    GenerationPlan,
    describe_differences,
    identify,
    read_plan,
)
from t2t.data.generation.shard_job import digest_shards, make_shards, shard_folder
from t2t.data.generation.worker_pool import WorkerPool
from t2t.data.manifest import Manifest
from t2t.errors import UserError
from t2t.files.paths import local_path
from t2t.problems.base import Problem
from t2t.specs import TRAIN

log = logging.getLogger("t2t")


_FORM = re.compile(r"(\d{1,9})/(\d{1,9})")


def parse_task(text: str) -> tuple[int, int]:
    """Parses `K/N`: returns the number of a task, from 0, and the number of tasks.

    Raises:
        UserError: the text has another form, or there is no such task.
    """
    found = _FORM.fullmatch(text)
    if not found:
        raise UserError(
            "it is not K/N, the number of this task, counted from 0, and how many tasks there are",
            "write such as --shard=0/100",
            option="shard",
            value=text,
        )
    task, tasks = int(found[1]), int(found[2])
    if task >= tasks:
        raise UserError(
            f"there is no such task: {tasks:,} are counted from 0{f' to {tasks - 1:,}' if tasks else ''}",
            "give one of them",
            option="shard",
            value=text,
        )
    return task, tasks


def generate_part(
    problem: Problem,
    data_dir: Path | str,
    tmp_dir: Path | str,
    seed: int,
    task: int,
    tasks: int,
    workers: int | None = None,
) -> None:
    """Makes the unfinished shards of one task of an array job.

    Args:
        problem: what to generate; for a variant (`_rev`, `_copy`) pass the base.
        data_dir: the data goes to `<data_dir>/<problem.stored.name>`; all tasks share it.
        tmp_dir: raw files and downloads.
        seed: of all randomness in the data.
        task: its number, from 0.
        tasks: number of tasks; it may exceed the number of shards.
        workers: number of processes, see `generate`.

    Raises:
        UserError: as `generate`.
        MachineError: as `generate`.
    """
    folder, tmp_dir = data_folder(data_dir, problem), local_path(tmp_dir)
    refresh(folder)
    fetch_raw_files(problem, tmp_dir)
    if is_published(folder) and existing_data(folder, problem, seed, tmp_dir) is not None:
        return
    check_places(folder)
    with working(problem, workers) as (pool, show):
        plan = _shared_plan(problem, folder, tmp_dir, seed, pool, show)
        if plan is None:
            return
        partial, mine = partial_folder(folder), plan.every_shard()[task::tasks]
        job = GenerationJob(plan, problem, partial, tmp_dir)
        log.info("task %d of %d: %d of %d shards", task, tasks, len(mine), len(plan.every_shard()))
        for split in plan.order:
            shards = [shard for name, shard in mine if name == split]
            if split == TRAIN and not _find_duplicates(job, folder, shards, pool, show):
                return
            make_shards(job, split, shards, pool, show)
            publish_shards([shard_folder(partial, split, shard) for shard in shards])
    log.info("task %d of %d: finished; after the last task, give --merge in place of --shard", task, tasks)


def _find_duplicates(
    job: GenerationJob, folder: Path, shards: Sequence[int], pool: WorkerPool, show: Callable[[str, int], None]
) -> bool:
    """Writes the digests of a task's shards; finds the duplicates once the digests of all shards exist.

    Returns:
        Whether the training split can be made: duplicates are known, or need not be found.
    """
    if job.problem.duplicate_key() is None:
        return True
    plan, partial = job.plan, job.folder
    digest_shards(job, shards, pool, show)
    publish_shards([digest_folder(partial, shard) for shard in shards])
    fetch_digests(partial)
    if missing := len(missing_digests(plan, partial)):
        log.info(
            "--filter_duplicates: this task has digested its shards, and %s of other tasks are missing; when all tasks "
            "have ended, run the same array job again, which makes the split %s", f"{missing:,}", TRAIN,
        )  # fmt: skip
        return False
    with lock_generation(folder, waits=True):
        find_duplicates(plan, partial)
    return True


def _shared_plan(
    problem: Problem,
    folder: Path,
    tmp_dir: Path,
    seed: int,
    pool: WorkerPool,
    show: Callable[[str, int], None],
) -> GenerationPlan | None:
    """Returns the plan of all tasks, which the first of them makes; None if the data is finished already.

    Raw files that are in the plan are compared only by path and size, so that not every task reads them; merging
    compares their contents.
    """
    with lock_generation(folder, waits=True):
        if settled_data(folder, problem, seed, tmp_dir) is not None:
            return None
        partial = partial_folder(folder)
        fetch_plan(partial)
        known = read_plan(partial)
        identity = identify(problem, tmp_dir, seed, trusted=known.identity.raw_files if known else None)
        if known is not None:
            _check_same(identity, known, partial)
        plan = open_plan(identity, problem, partial, tmp_dir, pool.call_each, show)
        publish_plan(partial, plan)
        return plan


def _check_same(asked: DataIdentity, plan: GenerationPlan, partial: Path) -> None:
    """Refuses shards of another generation: a task with other flags must not remove the shards of all others."""
    if differing := describe_differences(asked, plan.identity):
        raise UserError(
            f"the shards in {partial} were made with other settings ({differing})",
            "give the flags, files and version that they are made with, or delete that folder and make them again "
            "with --shard=K/N",
        )


def merge(problem: Problem, data_dir: Path | str, tmp_dir: Path | str, seed: int) -> Manifest:
    """Merges the shards that the tasks of an array job have made, unless the data exists already.

    Raises:
        UserError: shards are missing or of another generation, or as `generate`.
        MachineError: as `generate`.
    """
    folder, tmp_dir = data_folder(data_dir, problem), local_path(tmp_dir)
    with lock_generation(folder):
        fetch_raw_files(problem, tmp_dir)
        if (existing := settled_data(folder, problem, seed, tmp_dir)) is not None:
            return existing
        partial = partial_folder(folder)
        fetch_shards(partial)
        plan = read_plan(partial)
        if plan is None:
            raise UserError(
                f"there are no shards of {problem.stored.name} in {folder.parent}",
                "make them first, with the same flags and --shard=K/N in place of --merge",
                option="merge",
            )
        _check_same(identify(problem, tmp_dir, seed), plan, partial)
        return finish(plan, problem, partial, folder)
