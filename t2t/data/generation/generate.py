"""Generates the data of a problem, all or nothing: a plan, every shard of every split, then the manifest.

A run works in a hidden folder next to the final one and renames it at the very end, so that a crash leaves nothing that
looks like data. The next run of the same plan keeps the finished shards; a run of another plan removes them.
"""

import contextlib
import copy
import logging
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from t2t.data.generation.data_folder import (
    check_places,
    data_folder,
    existing_data,
    fetch_raw_files,
    is_published,
    lock_generation,
    make_empty,
    partial_folder,
    publish,
    publish_data,
    refresh,
    settled_data,
    withdraw_shards,
)
from t2t.data.generation.duplicates import find_duplicates
from t2t.data.generation.merging import check_split, merge_shards
from t2t.data.generation.plan import (
    WORK,
    DataIdentity,
    GenerationJob,
    GenerationPlan,
    count_shards,
    describe_differences,
    identify,
    read_plan,
    seed_of,
    write_plan,
)
from t2t.data.generation.shard_job import digest_shards, finished_shard, make_shards
from t2t.data.generation.split_writer import MOST_BYTES, MOST_EXAMPLES
from t2t.data.generation.worker_pool import WorkerPool
from t2t.data.manifest import REMEDY, Manifest
from t2t.errors import UserError
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.files.paths import local_path
from t2t.files.progress import Progress
from t2t.problems.base import Problem
from t2t.problems.samples import CallEach, GenerationContext
from t2t.problems.vocabularies import text_names
from t2t.specs import TRAIN
from t2t.text.vocabulary_files import read_encoders, save_encoders

log = logging.getLogger("t2t")


def generate(
    problem: Problem,
    data_dir: Path | str,
    tmp_dir: Path | str,
    seed: int = 0,
    workers: int | None = None,
    progress: Callable[[str, int], None] | None = None,
    *,
    once_forked: Callable[[], object] | None = None,
    most_examples: int = MOST_EXAMPLES,
    most_bytes: int = MOST_BYTES,
) -> Manifest:
    """Generates the data of a problem, unless it exists already.

    Args:
        problem: what to generate; for a variant (`_rev`, `_copy`) pass the base.
        data_dir: the data goes to `<data_dir>/<problem.stored.name>`.
        tmp_dir: raw files and downloads.
        seed: of all randomness in the data.
        workers: number of processes; None for one per core. The bytes do not depend on it.
        progress: called with what is read (a split, or `vocabulary`) and how many of its examples have been read; None
            for a bar on a terminal and log lines elsewhere.
        once_forked: called before anything is generated, as soon as the workers are forked: for checks that
            import TensorFlow, whose threads keep a process from forking.
        most_examples: examples in one file.
        most_bytes: bytes of values in one file.

    Returns:
        The manifest of the data.

    Raises:
        UserError: the folder holds other data, or data from raw files that have changed since; another process is
            generating it; a sample is wrong; a split is empty; or more than half of the training examples are unfit.
        MachineError: the disk is full, or the folder is not writable.
    """
    folder, tmp_dir = data_folder(data_dir, problem), local_path(tmp_dir)
    refresh(folder)
    fetch_raw_files(problem, tmp_dir)
    if is_published(folder) and (existing := existing_data(folder, problem, seed, tmp_dir)) is not None:
        return existing
    check_places(folder)
    with lock_generation(folder):
        if (existing := settled_data(folder, problem, seed, tmp_dir)) is not None:
            return existing
        with working(problem, workers, progress) as (pool, show):
            if once_forked is not None:
                once_forked()
            log.info("generating %s in %s", problem.stored.name, folder)
            partial, identity = partial_folder(folder), identify(problem, tmp_dir, seed, most_examples, most_bytes)
            with kept_where_useful(partial):
                plan = open_plan(identity, problem, partial, tmp_dir, pool.call_each, show)
                job = GenerationJob(plan, problem, partial, tmp_dir)
                for split in plan.order:
                    every = range(plan.shards[split])
                    if split == TRAIN and problem.duplicate_key() is not None:
                        digest_shards(job, every, pool, show)
                        find_duplicates(plan, partial)
                    check_split(problem, split, make_shards(job, split, every, pool, show))
                return finish(plan, problem, partial, folder)


@contextlib.contextmanager
def working(
    problem: Problem, workers: int | None, progress: Callable[[str, int], None] | None = None
) -> Iterator[tuple[WorkerPool, Callable[[str, int], None]]]:
    """Yields the worker processes of a generation and its progress callback; closes both at the end."""
    pool, shown = WorkerPool(problem, workers), ReadingProgress()
    try:
        yield pool, progress or shown.show
    finally:
        pool.close()
        shown.close()


def open_plan(
    identity: DataIdentity,
    problem: Problem,
    partial: Path,
    tmp_dir: Path,
    call_each: CallEach,
    progress: Callable[[str, int], None],
) -> GenerationPlan:
    """Returns the plan of a generation: that of an interrupted run with the same identity, or else a new one.

    The caller holds the lock of the generation.

    Raises:
        UserError: raw files are missing, a vocabulary cannot be learnt from them, or it lacks a language's tag or code.
        MachineError: the disk is full, or the folder is not writable.
    """
    plan = read_plan(partial)
    if plan is not None and not describe_differences(identity, plan.identity):
        finished, every = _count_finished(plan, partial), plan.every_shard()
        log.info("resuming: %s of %s shards are finished", f"{finished:,}", f"{len(every):,}")
        return plan
    if plan is not None and (finished := _count_finished(plan, partial)):
        log.warning(
            "%s finished shards are removed, as they were made with other settings: %s", f"{finished:,}",
            describe_differences(identity, plan.identity),
        )  # fmt: skip
    problem.sample_filters()  # checks these options before anything is read
    problem.duplicate_key()
    make_empty(partial)
    with os_errors_as_machine_errors(f"cannot write {partial}"):
        (partial / WORK).mkdir()

    def context(use: str) -> GenerationContext:
        rng = random.Random(seed_of(identity.seed, use))
        return GenerationContext(
            tmp_dir, rng, progress=progress, work_dir=partial / WORK, call_each=call_each, data_dir=partial.parent
        )

    problem = copy.copy(problem)
    encoders = problem.build_encoders(context("vocabulary"))
    if missing := [name for name in text_names(problem) if name not in encoders]:
        raise UserError(
            f"problem {problem.name}: build_encoders returned vocabularies of {', '.join(encoders) or 'nothing'}",
            f"it must return one of {' and '.join(missing)}, too",
        )
    problem.languages.marks(encoders)  # data without a tag or language that reading it needs would be of no use
    records = save_encoders(partial, encoders)
    problem.with_encoders(read_encoders(partial, records, REMEDY))
    _log_vocabularies(problem)
    shards = {split: count_shards(problem, split, context(split)) for split in problem.splits}
    plan = GenerationPlan(identity=identity, spec=problem.spec(), vocabularies=records, shards=shards)
    write_plan(partial, plan)
    return plan


def finish(plan: GenerationPlan, problem: Problem, partial: Path, folder: Path) -> Manifest:
    """Merges and publishes finished shards; returns the manifest of the data.

    The caller holds the lock of the generation.

    Raises:
        UserError: see `merge_shards`.
        MachineError: the disk is full, or the folder is not writable.
    """
    manifest = merge_shards(plan, problem, partial)
    publish(partial, folder)
    publish_data(folder, manifest)
    withdraw_shards(partial)
    shutil.rmtree(folder / WORK, ignore_errors=True)  # if this fails, `existing_data` removes it later
    return manifest


@contextlib.contextmanager
def kept_where_useful(partial: Path) -> Iterator[None]:
    """After an error, removes the partial data, unless some split has several shards and some are finished."""
    try:
        yield
    except BaseException:
        plan = read_plan(partial)
        every = plan.every_shard() if plan else []
        finished = _count_finished(plan, partial) if plan else 0
        if plan is None or not finished or len(every) == len(plan.shards):
            shutil.rmtree(partial, ignore_errors=True)
        else:
            log.info(
                "%s of %s shards are finished and kept in %s; the same command makes the others",
                f"{finished:,}", f"{len(every):,}", partial,
            )  # fmt: skip
        raise


def _count_finished(plan: GenerationPlan, partial: Path) -> int:
    return sum(finished_shard(plan, partial, *shard) is not None for shard in plan.every_shard())


def _log_vocabularies(problem: Problem) -> None:
    seen: dict[str, list[str]] = {}
    for name, encoder in problem.encoders.items():
        seen.setdefault(encoder.fingerprint, []).append(name)
    for names in seen.values():
        encoder = problem.encoders[names[0]]
        log.info("vocabulary of %s: %s, %s ids", ", ".join(names), encoder.kind, f"{encoder.vocab_size:,}")


class ReadingProgress:
    """Shows how many examples have been read of a split, or for a vocabulary."""

    def __init__(self) -> None:
        self._shown: Progress | None = None
        self._what = ""

    def show(self, what: str, read: int) -> None:
        """Sets the count of `what` (a split, or `vocabulary`) to the number of examples read so far."""
        if self._shown is None or what != self._what:
            self.close()
            self._what, self._shown = what, Progress(what, "examples")
        self._shown.move_to(read)

    def close(self) -> None:
        """Ends the current bar."""
        if self._shown is not None:
            self._shown.close()
            self._shown = None
