"""Makes one shard of a split, all or nothing: reads, encodes and writes it; makes all that a command or a task needs.

Each shard has a folder, e.g. `work/train-00003/`, which is written under a temporary name and then renamed. It holds
the shard's files and, written last, a sealed record of them. A shard with a record of the same plan is not made again.
"""

import contextlib
import dataclasses
import functools
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t.data.generation.duplicates import digest_shard, mark_samples, missing_digests
from t2t.data.generation.encoding import Chunk, MapChunks, encode_samples, map_chunks
from t2t.data.generation.plan import (
    WORK,
    GenerationJob,
    GenerationPlan,
    read_finished,
    read_same_plan,
    write_work_record,
    written_whole,
)
from t2t.data.generation.split_writer import SplitWriter, TextsRecord, TextsWriter
from t2t.data.generation.tally import ENOUGH_TO_JUDGE, SampleCounts, check_fit
from t2t.data.generation.worker_pool import WorkerPool
from t2t.data.manifest import ColumnTotals, SplitPart
from t2t.problems.base import Problem
from t2t.problems.samples import SampleRecord, samples_of
from t2t.specs import TRAIN


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardResult:
    """The contents of a shard, and the counts made while generating it."""

    plan: str
    """Fingerprint of the plan."""
    split: str
    shard: int
    """Its number, from 0."""
    examples: int
    """Their number."""
    columns: dict[str, ColumnTotals]
    files: list[SplitPart]
    """The files of its examples, named as if this shard were the whole split."""
    texts: dict[str, TextsRecord]
    """By feature, the raw text; for dev and test splits only."""
    counts: SampleCounts


def shard_folder(folder: Path, split: str, shard: int) -> Path:
    """Returns the folder of a finished shard, inside that in which data is generated."""
    return folder / WORK / f"{split}-{shard:05d}"


def finished_shard(plan: GenerationPlan, folder: Path, split: str, shard: int) -> ShardResult | None:
    """Returns the record of a shard that was made by this plan; None if there is none or its files are missing."""
    result = read_finished(ShardResult, plan, shard_folder(folder, split, shard))
    return result if result and (result.split, result.shard) == (split, shard) else None


def generate_shard(
    job: GenerationJob,
    split: str,
    shard: int,
    *,
    chunks: MapChunks | None = None,
    progress: Callable[[int], None] = lambda read: None,
) -> ShardResult:
    """Makes one shard, unless it is finished; its bytes depend on the plan, the split and the number alone.

    Args:
        job: of the generation.
        split: one of the plan's.
        shard: its number, from 0.
        chunks: maps the chunks of samples; None to do so in this process.
        progress: called now and then with the number of samples read.

    Raises:
        UserError: a sample is wrong, raw files are missing, or another process makes the same shard.
        MachineError: the disk is full, or the folder is not writable.
    """
    plan, identity = job.plan, job.plan.identity
    if (finished := finished_shard(plan, job.folder, split, shard)) is not None:
        return finished
    problem = job.open_problem()
    chunks = chunks or functools.partial(map_chunks, job.problem)
    with contextlib.ExitStack() as stack:
        stack.enter_context(job.errors_of(split, shard))
        written = stack.enter_context(written_whole(shard_folder(job.folder, split, shard)))
        context = job.context(split, shard)
        samples = samples_of(problem, split, context)
        if split == TRAIN and problem.duplicate_key() is not None:
            samples = mark_samples(samples, dataclasses.replace(job, problem=problem), shard)
        tally = SplitTally(samples, context.tally)
        sizes = identity.most_examples, identity.most_bytes
        writer = stack.enter_context(contextlib.closing(SplitWriter(written, split, dict(plan.spec.features), *sizes)))
        texts = stack.enter_context(contextlib.closing(TextsWriter(written, split)))
        for chunk in chunks(encode_samples, tally, job.folder, plan.fingerprint, split):
            tally.add(chunk)
            writer.write(chunk.columns)
            texts.write(chunk.texts, chunk.altered)
            if split == TRAIN and plan.shards[split] == 1:
                _check_beginning(problem, tally.counts())
            progress(tally.counts().read)
        columns, files = writer.finish()
        result = ShardResult(
            plan=plan.fingerprint, split=split, shard=shard, examples=writer.examples, columns=columns, files=files,
            texts=texts.finish(), counts=tally.counts(),
        )  # fmt: skip
        write_work_record(written, result)
    return result


def _check_beginning(problem: Problem, counts: SampleCounts) -> None:
    """Raises UserError early if most training data is unfit so far: all of it may take hours."""
    if counts.judged >= ENOUGH_TO_JUDGE:
        check_fit(problem, counts, "so far", "; if only their beginning is so, shuffle them")


class SplitTally:
    """Counts samples as they are drawn and chunks as they are encoded.

    An example that is dropped, or whose raw data is repaired, is unfit; it counts once, however many faults it has.
    Iterate over the tally instead of the samples; the problem adds to `repaired` while it yields them.
    """

    def __init__(self, samples: Iterable[SampleRecord], repaired: Counter):
        self._samples, self._repaired = samples, repaired
        self._is_repaired: deque[bool] = deque()  # of the samples that are drawn and not yet encoded
        self._counts = SampleCounts()

    def __iter__(self) -> Iterator[SampleRecord]:
        before = self._repaired.total()
        for sample in self._samples:
            now = self._repaired.total() if self._repaired else 0
            self._is_repaired.append(now != before)
            before = now
            yield sample

    def add(self, chunk: Chunk) -> None:
        """Adds a chunk; call it in the order of the samples."""
        is_repaired = np.array([self._is_repaired.popleft() for _ in chunk.kept], dtype=bool)
        unfit = int(((is_repaired | ~chunk.kept) & ~chunk.filtered).sum())
        self._counts += dataclasses.replace(chunk.counts, unfit=unfit)

    def counts(self) -> SampleCounts:
        """Returns the counts so far."""
        return dataclasses.replace(self._counts, repaired=dict(sorted(self._repaired.items())))


def make_shards(
    job: GenerationJob, split: str, shards: Sequence[int], pool: WorkerPool, progress: Callable[[str, int], None]
) -> list[ShardResult]:
    """Makes those of some shards of a split that are not finished; returns the records of all, in order.

    Args:
        job: of the generation.
        split: one of the plan's.
        shards: their numbers.
        pool: worker processes; their number does not affect the result.
        progress: called with the split and the number of its samples read.

    Raises:
        UserError: see `generate_shard`; or most training examples of the first shards are unfit.
        MachineError: a process died, or as `generate_shard`.
    """
    plan, folder = job.plan, job.folder
    results = {shard: result for shard in shards if (result := finished_shard(plan, folder, split, shard))}
    is_judged = split == TRAIN and len(shards) == plan.shards[split]
    following, counts = deque(shards[:-1] if is_judged else []), SampleCounts()

    def check_beginnings() -> None:
        """Judges the first shard, the first two and so on, whichever are finished first."""
        nonlocal counts
        while following and following[0] in results:
            counts += results[following.popleft()].counts
            _check_beginning(job.problem, counts)

    check_beginnings()
    missing = [(split, shard) for shard in shards if shard not in results]
    done = sum(result.counts.read for result in results.values())
    for result in _make_each(generate_shard, job, missing, pool, lambda read: progress(split, done + read)):
        results[result.shard] = result
        check_beginnings()
    return [results[shard] for shard in shards]


def digest_shards(
    job: GenerationJob, shards: Sequence[int], pool: WorkerPool, progress: Callable[[str, int], None]
) -> None:
    """Writes those digests of some shards of the training split that do not exist; see `make_shards`."""
    missing = [(shard,) for shard in missing_digests(job.plan, job.folder) if shard in shards]
    for _ in _make_each(digest_shard, job, missing, pool, lambda read: progress("duplicates", read)):
        pass


def _make_each(
    make: Callable[..., Any],
    job: GenerationJob,
    shards: Sequence[tuple[Any, ...]],
    pool: WorkerPool,
    progress: Callable[[int], None],
) -> Iterator[Any]:
    """Yields `make(job, *shard)` of each shard: workers take whole shards or, of fewer shards than workers, chunks."""
    if len(shards) >= pool.processes > 1:
        # The plan, sent with each call, could cost more than its shard.
        calls = [(make, job.plan.fingerprint, job.folder, job.tmp_dir, shard) for shard in shards]
        yield from pool.run_each(_make_in_worker, calls, progress)
        return
    done = last = 0

    def tell(read: int) -> None:
        nonlocal last
        last = done + read
        progress(last)

    for shard in shards:
        yield make(job, *shard, chunks=pool.map_chunks, progress=tell)
        done = last


def _make_in_worker(
    problem: Problem,
    make: Callable[..., Any],
    plan: str,
    folder: Path,
    tmp_dir: Path,
    shard: tuple[Any, ...],
    progress: Callable[[int], None],
) -> Any:
    return make(GenerationJob(read_same_plan(folder, plan), problem, folder, tmp_dir), *shard, progress=progress)
