"""Makes shards on this machine: one per process or, if there are fewer shards than processes, one by one on all."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from t2t.data.digests import digest_shard
from t2t.data.duplicates import missing_digests
from t2t.data.plan import Plan
from t2t.data.shard_job import ShardResult, finished_shard, generate_shard
from t2t.data.tally import ENOUGH_TO_JUDGE, Counts, check_fit
from t2t.data.worker_pool import WorkerPool
from t2t.problems.base import Problem
from t2t.specs.constants import TRAIN


def make_shards(
    plan: Plan,
    problem: Problem,
    split: str,
    shards: Sequence[int],
    folder: Path,
    tmp_dir: Path,
    pool: WorkerPool,
    progress: Callable[[str, int], None],
) -> list[ShardResult]:
    """Makes those of some shards of a split that are not finished; returns the records of all, in order.

    Args:
        plan: of the generation.
        problem: what is generated.
        split: one of the plan's.
        shards: their numbers.
        folder: in which data is generated.
        tmp_dir: folder of raw files.
        pool: worker processes; their number does not affect the result.
        progress: called with the split and the number of its samples read.

    Raises:
        UserError: see `generate_shard`; or most training examples of the first shards are unfit.
        MachineError: a process died, or as `generate_shard`.
    """
    results = {shard: result for shard in shards if (result := finished_shard(plan, folder, split, shard))}
    is_judged = split == TRAIN and len(shards) == plan.shards[split]
    if is_judged:
        _check_beginnings(problem, shards, results)
    missing = [shard for shard in shards if shard not in results]
    if pool.processes == 1 or len(missing) < pool.processes:

        def tell(read: int) -> None:
            progress(split, _count_read(results) + read)

        made: Iterator[ShardResult] = (
            generate_shard(plan, problem, split, shard, folder, tmp_dir, encode=pool.encode, progress=tell)
            for shard in missing
        )
    else:
        calls, done = [(plan, split, shard, folder, tmp_dir) for shard in missing], _count_read(results)
        made = pool.run_each(_generate_shard, calls, lambda read: progress(split, done + read))
    for result in made:
        results[result.shard] = result
        if is_judged:
            _check_beginnings(problem, shards, results)
    return [results[shard] for shard in shards]


def digest_shards(
    plan: Plan,
    problem: Problem,
    shards: Sequence[int],
    folder: Path,
    tmp_dir: Path,
    pool: WorkerPool,
    progress: Callable[[str, int], None],
) -> None:
    """Writes those digests of some shards of the training split that do not exist; see `make_shards`."""
    missing = [shard for shard in missing_digests(plan, folder) if shard in shards]
    done = 0

    def tell(read: int) -> None:
        progress("duplicates", done + read)

    if pool.processes == 1 or len(missing) < pool.processes:
        for shard in missing:
            done += digest_shard(plan, problem, shard, folder, tmp_dir, judge=pool.judge, progress=tell).samples
    else:
        list(pool.run_each(_digest_shard, [(plan, shard, folder, tmp_dir) for shard in missing], tell))


def _count_read(results: dict[int, ShardResult]) -> int:
    return sum(result.counts.read for result in results.values())


def _check_beginnings(problem: Problem, shards: Sequence[int], results: dict[int, ShardResult]) -> None:
    """Raises UserError early if most examples of the first shards are unfit: all shards may take hours.

    The first shard, the first two and so on are judged, all but the last, whichever of them were finished first.
    """
    counts = Counts()
    for shard in shards[:-1]:
        if shard not in results:
            break
        counts += results[shard].counts
        if counts.judged >= ENOUGH_TO_JUDGE:
            check_fit(problem, counts, "so far", "; if only their beginning is so, shuffle them")


def _generate_shard(
    problem: Problem,
    plan: Plan,
    split: str,
    shard: int,
    folder: Path,
    tmp_dir: Path,
    progress: Callable[[int], None],
) -> ShardResult:
    return generate_shard(plan, problem, split, shard, folder, tmp_dir, progress=progress)


def _digest_shard(
    problem: Problem, plan: Plan, shard: int, folder: Path, tmp_dir: Path, progress: Callable[[int], None]
) -> None:
    digest_shard(plan, problem, shard, folder, tmp_dir, progress=progress)
